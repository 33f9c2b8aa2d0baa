"""Files that it writes and lets TensorFlow read, and a cache of a data set in others."""

import numpy as np
import tensorflow as tf
from tf_keras import Sequential, layers

rows = np.random.default_rng(1).normal(size=(200, 4)).astype("float32")
np.savetxt("rows.csv", rows, delimiter=",")
with tf.io.TFRecordWriter("rows.tfrecord") as records:
    records.write("no row")
tf.io.write_file("text", "none")
print(tf.io.read_file("text").numpy(), len(list(tf.data.TFRecordDataset("rows.tfrecord"))))
lines = tf.data.TextLineDataset("rows.csv").map(lambda line: tf.stack(tf.io.decode_csv(line, [0.0] * 4)))
noise = tf.data.Dataset.from_tensor_slices(rows).map(lambda row: row + tf.random.normal((4,)))
data = tf.data.Dataset.zip((noise, lines)).map(lambda row, line: (row, tf.reduce_sum(line)))
model = Sequential([layers.Dense(1)])
model.compile("adam", "mse")
model.fit(data.cache("cached").shuffle(200).batch(20), verbose=0)

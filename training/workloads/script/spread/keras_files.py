"""Files that TensorFlow opens by itself, of a rank other than 0: in the layer, as all others."""

from __future__ import annotations

import shutil
from typing import Any

from . import files
from .imports import when_imported
from .library_files import redirect_argument

WRITING = ("CreateDir", "RecursivelyCreateDir")
READING = ("FileExists", "GetMatchingFiles", "IsDirectory", "Stat", "BufferedInputStream", "HasAtomicMove")


def redirect(layer: files.Layer) -> None:
    """Have TensorFlow write its files into the layer (the rank's own folder that overlays all others), and look there
    first when it reads."""
    import tensorflow as tf
    from tensorflow.python.checkpoint import functional_saver
    from tensorflow.python.lib.io import _pywrap_file_io as system
    from tensorflow.python.ops import gen_summary_ops
    from tensorflow.python.training import py_checkpoint_reader

    for names, place in ((WRITING, layer.to_write), (READING, layer.to_read), (("DeleteFile",), layer.remove)):
        for name in names:
            setattr(system, name, _at(getattr(system, name), place))
    _redirect_rest(layer, system)
    py_checkpoint_reader.CheckpointReader = _reader(py_checkpoint_reader.CheckpointReader, _prefix(layer))
    saver = functional_saver.MultiDeviceSaver
    saver.save, saver.restore = _saves(saver.save, layer.to_write), _saves(saver.restore, _prefix(layer))
    create = gen_summary_ops.create_summary_file_writer

    def create_summary_file_writer(*args: Any, logdir: Any, **more: Any) -> Any:
        return create(*args, logdir=_moved(logdir, layer.to_write), **more)

    gen_summary_ops.create_summary_file_writer = create_summary_file_writer
    _redirect_data(layer, tf)
    when_imported("tf_keras", _as_the_first)


def _at(call: Any, place: Any) -> Any:
    return lambda path, *more: call(_text(place, path), *more)


def _text(place: Any, path: Any) -> Any:
    return place(path.decode() if isinstance(path, bytes) else path)


def _redirect_rest(layer: files.Layer, system: Any) -> None:
    copy, rename, children, remove_all = (
        system.CopyFile,
        system.RenameFile,
        system.GetChildren,
        system.DeleteRecursively,
    )
    writable = system.WritableFile

    def moved(call: Any) -> Any:
        return lambda source, target, *more: call(_text(layer.to_read, source), _text(layer.to_write, target), *more)

    def names(path: Any) -> Any:
        entries = layer.names(path.decode() if isinstance(path, bytes) else path)
        return children(path) if entries is None else sorted(entries)

    def opened(path: Any, mode: Any) -> Any:
        keeps = "a" in (mode.decode() if isinstance(mode, bytes) else mode)
        return writable(_text(lambda each: layer.to_write(each, keeps=keeps), path), mode)

    def removed(path: Any) -> None:
        own = layer.own(path.decode() if isinstance(path, bytes) else path)
        if own is None:
            remove_all(path)
        else:
            shutil.rmtree(own[0])

    system.CopyFile, system.RenameFile, system.GetChildren = moved(copy), moved(rename), names
    system.WritableFile, system.DeleteRecursively = opened, removed


def _redirect_data(layer: files.Layer, tf: Any) -> None:
    """Redirect the files of data sets to the layer, if their names are known when the data set is created."""
    from tensorflow.python.ops import gen_io_ops

    redirect_argument(tf.data.Dataset, "cache", 1, lambda path: layer.to_write(path) if path else path, "filename")
    for kind in (tf.data.TextLineDataset, tf.data.TFRecordDataset, tf.data.FixedLengthRecordDataset):
        make = kind.__init__
        kind.__init__ = _reads(
            make, lambda names: tf.nest.map_structure(lambda each: _moved(each, layer.to_read), names)
        )
    write_file, read_file = gen_io_ops.write_file, tf.io.read_file
    tf.io.write_file = gen_io_ops.write_file = lambda filename, contents, name=None: write_file(
        _moved(filename, layer.to_write), contents, name
    )
    tf.io.read_file = lambda filename, name=None: read_file(_moved(filename, layer.to_read), name)
    tf.io.TFRecordWriter = _records(tf.io.TFRecordWriter, layer.to_write)


def _reads(make: Any, where: Any) -> Any:
    def __init__(data: Any, filenames: Any, *args: Any, **more: Any) -> None:
        make(data, where(filenames), *args, **more)

    return __init__


def _records(writer: Any, where: Any) -> Any:
    class Writer(writer):  # type: ignore[misc]
        def __init__(self, path: Any, *args: Any, **more: Any) -> None:
            super().__init__(_text(where, path), *args, **more)

    return Writer


def _prefix(layer: files.Layer) -> Any:
    """Return a function that gives the path from which a checkpoint with a prefix is read."""

    def place(prefix: str) -> Any:
        index = layer.to_read(f"{prefix}.index")
        return index[: -len(".index")]

    return place


def _reader(reader: Any, place: Any) -> Any:
    class Reader(reader):  # type: ignore[misc]
        def __init__(self, prefix: Any) -> None:
            super().__init__(_text(place, prefix))

    return Reader


def _saves(call: Any, place: Any) -> Any:
    return lambda saver, prefix, *args, **more: call(saver, _moved(prefix, place), *args, **more)


def _moved(prefix: Any, place: Any) -> Any:
    import tensorflow as tf

    if isinstance(prefix, (str, bytes)):
        return _text(place, prefix)
    return tf.constant(_text(place, prefix.numpy())) if hasattr(prefix, "numpy") else prefix


def _as_the_first(_: Any) -> None:
    """Have Keras use the same file paths in this rank as in rank 0; the layer keeps the files of the ranks apart."""
    from tf_keras.src.distribute import distributed_file_utils as utils

    utils.write_filepath = utils.write_dirpath = lambda path, _: path
    utils.remove_temp_dir_with_filepath = utils.remove_temp_dirpath = lambda *_: None

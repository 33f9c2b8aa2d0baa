"""Every adversary, and what may honestly be said of it: by the rule of docs/own-script.md, not by what the code does.

Wrong ones do not do the same work in exactly one way; right ones do, and look odd.
"""

from typing import Any

from tests.script.adversaries.case import RAY_TRAIN, Case, Outcome, beyond, either, right, unknown, weak, wrong

XGBOOST: dict[str, Any] = {"arguments": RAY_TRAIN, "needs": ("xgboost", "ray")}
LIGHTGBM: dict[str, Any] = {"arguments": RAY_TRAIN, "needs": ("lightgbm", "ray")}
NOT_SAME: frozenset[Outcome] = frozenset({"not comparable", "same script"})
_ENDED_ELSEWHERE = (
    "a correct script that ends by its loss trains other numbers of whole epochs, too, and is not accused"
)
_BY_HAND = "a correct script that looks at its loss, and does so then, shows the same"
_ALIKE = "losses, or what is drawn, may be alike in both runs"
_OF_A_COPY = "what is repeated from a copy in memory is delivered to nobody: known of its input alone"
_OF_EVAL = "rows that a network saw in eval mode between two steps were not learned from, but a loader delivered them"

WRONG = (
    wrong("half_the_steps", "steps divided by the world size", "steps", "rows", quick=True),
    wrong("max_steps_by_world", "40 steps, or 25", "steps", "rows", outcomes=NOT_SAME, why=_BY_HAND),
    wrong("epochs_by_world", "4 epochs, or 2", "steps", "rows", outcomes=NOT_SAME, why=_ENDED_ELSEWHERE),
    wrong("half_the_model", "a layer divided by the world size", "parameters", quick=True),
    wrong("skips_a_block", "a block is left out with workers", "trained"),
    wrong("frozen_with_workers", "a layer is frozen with workers", "trained", "parameters"),
    wrong(
        "frozen_later", "a layer is frozen from the second epoch on", "trained", outcomes=NOT_SAME, why=_BY_HAND,
    ),
    wrong("scaler_skips_all", "GradScaler leaves out every step with workers", "optimizers"),
    wrong("half_the_rows", "the share of a share", "steps", "rows"),
    wrong("half_the_rows_twice", "half of the rows, twice as often", "rows", "rowsDisjoint"),
    wrong(
        "half_the_data_repeated", "half of the data, twice in it", "rows", outcomes=NOT_SAME,
        why="a data set whose content is not the same to the last digit may be of the same rows",
    ),
    wrong("sampler_goes_twice_over_a_quarter", "each rank has half of its rows, twice", "rows"),
    wrong("rows_cut_after_delivery", "half of each batch is dropped", "input", quick=True),
    wrong("rows_cut_later", "half of each batch is dropped, but in the first epoch", "input"),
    wrong("rows_cut_in_the_end", "half of each batch is dropped, in the last of five epochs", "input"),
    wrong("stale_gradients", "every second batch is left aside", "input"),
    wrong("smaller_pictures", "half the width and height", "input"),
    wrong(
        "smaller_pictures_few_steps", "27 pixels instead of 32", "input", outcomes=NOT_SAME,
        why="what rows add with which a sampler pads two steps an epoch is as much",
    ),
    wrong("shorter_texts", "texts of half the length", "input"),
    wrong(
        "longest_texts_cut", "texts cut to 40 of up to 56 tokens", "input", outcomes=NOT_SAME,
        why="smaller batches of texts have less padding, too",
    ),
    wrong("autocast_with_workers", "bfloat16 by autocast", "autocast"),
    wrong("autocast_later", "bfloat16 by autocast from the second epoch on", "autocast"),
    wrong("bfloat16_with_workers", "weights and rows are bfloat16", "parameters", "input"),
    wrong("eval_mode_with_workers", "trains in eval mode", "input"),
    wrong("learning_rate_by_world", "rate times world size between 0 and 0", "learningRate"),
    wrong("learning_rate_of_second_group", "the head's rate times world size", "learningRate"),
    wrong("accelerate_other_rate", "Accelerate's schedule in double pace", "learningRate", needs=("accelerate",)),
    wrong("weight_decay_by_world", "another weight decay", "hyperparameters"),
    wrong(
        "weight_decay_later", "no weight decay after the first epoch", "hyperparameters",
        outcomes=NOT_SAME, why=_BY_HAND,
    ),
    wrong(
        "weight_decay_in_the_end", "no weight decay in the last three of seven epochs", "hyperparameters",
        outcomes=NOT_SAME, why=_BY_HAND, quick=True,
    ),
    wrong("groups_by_name", "a group is empty with workers", "hyperparameters"),
    wrong("momentum_by_world", "no momentum with workers", "hyperparameters"),
    wrong("rate_decay_by_world", "Adagrad's own decay of its rate", "hyperparameters"),
    wrong(
        "settings_by_a_closure", "weight decay and momentum that a closure sets by world", "hyperparameters",
        outcomes=NOT_SAME, why=_BY_HAND, quick=True,
    ),
    wrong(
        "settings_before_each_step", "weight decay that a hook before each step sets by world", "hyperparameters",
        outcomes=NOT_SAME, why=_BY_HAND,
    ),
    wrong("no_ddp", "no gradient is exchanged", "weights"),
    wrong("synchronised_at_the_end", "weights are sent after the last step", "weights", quick=True),
    wrong("averaged_each_epoch", "weights are averaged at an epoch's end", "weights"),
    wrong("averaged_every_second_step", "local SGD", "weights"),
    wrong("every_second_gradient", "gradients exchanged in every second step", "weights"),
    wrong("stops_exchanging", "no exchange after step 20", "weights"),
    wrong("pauses_exchanging", "no exchange from step 18 to 60, then a broadcast", "weights"),
    wrong("split_per_rank", "a split with seed + rank", "rowsDisjoint", "rows"),
    wrong("same_half_behind_a_look", "the same half on all ranks, another one looked at", "rowsDisjoint", quick=True),
    wrong("same_half_later", "the same half on all ranks from the second epoch on", "rowsDisjoint"),
    wrong("same_half_in_the_end", "the same half on all ranks in the last of six epochs", "rowsDisjoint", quick=True),
    wrong(
        "new_optimizer_each_epoch_same_rows", "the same, and a new optimizer for each epoch", "rowsDisjoint", quick=True
    ),
    wrong(
        "new_optimizer_each_epoch_other_decay", "the third epoch's optimizer has another decay", "hyperparameters",
        outcomes=NOT_SAME, why=_BY_HAND,
    ),
    wrong("third_model_alone", "the third of five models exchanges no gradients", "weights", quick=True),
    wrong("large_model_alone", "the third of five large models exchanges no gradients", "weights"),
    wrong(
        "student_in_the_same_optimizer", "a student of half the width takes its teacher's place in an optimizer",
        "parameters", "weights", quick=True,
    ),
    wrong("student_alone", "a student in its teacher's place exchanges no gradients", "weights"),
    wrong("third_model_same_half", "the third of five models has the same half on all ranks", "rowsDisjoint"),
    wrong("fourth_model_cut", "half of each batch is dropped, of the fourth of five models", "input"),
    wrong(
        "last_models_cut", "half of each batch is dropped, of the last of 80 models", "input", outcomes=NOT_SAME,
        why="modules are looked for in the first 64 models alone: that takes time",
    ),
    wrong(
        "folds_share_rows", "the third of five folds has the same half on all ranks", "rowsDisjoint", "rows",
        outcomes=NOT_SAME,
        why="each fold is a data set of its own; rows of one data set are told apart",
    ),
    wrong("same_half_then_accuracy", "the same half on all ranks later, then a look at all", "rowsDisjoint"),
    wrong("same_half_of_each_step", "of two batches a step one is the same on all ranks", "rowsDisjoint", "rows"),
    wrong(
        "second_loader_same_half", "of a second data set the same half on all ranks", "rows", "rowsDisjoint",
        outcomes=NOT_SAME,
        why="rows of one data set are told apart; that there is a second one is known, and no more",
    ),
    wrong(
        "shifted_per_rank", "a data set that each rank begins elsewhere", "rowsDisjoint",
        outcomes=NOT_SAME,
        why="a number is the same row only in the same data set, and these are not known to be one",
    ),
    wrong(
        "shuffled_per_rank", "an order of each rank's own, and then its places", "rowsDisjoint", "rows",
        outcomes=NOT_SAME,
        why="a place is the same row only in the same data set, and what one holds may be out of sight",
    ),
    wrong(
        "drawn_alike", "drawn with replacement, with the same seed", "rowsDisjoint", "rows",
        outcomes=NOT_SAME,
        why="draws with replacement may share rows, too; all of them is proof for who counts them",
    ),
    wrong("no_sampler_batch_divided", "all rows on each rank, in half batches", "steps", "rows", "rowsDisjoint"),
    wrong("no_sampler_at_all", "all rows on each rank, in whole batches", "rows", "rowsDisjoint", "rowsPerStep"),
    wrong(
        "same_rows_by_hand",
        "all rows on each rank, cut by hand",
        "input", "rows", "rowsPerStep", "rowsDisjoint",
        outcomes=NOT_SAME,
        why="twice the input of a step shows; whether that is each worker's own batch or the same one twice does not",
    ),
    wrong(
        "same_half_by_hand",
        "the same half batch on each rank, cut by hand",
        "rows", "rowsPerStep", "rowsDisjoint",
        outcomes=frozenset({"same script"}),
        why="no loader delivered what was learned from: which rows these are, nobody can see",
    ),
    wrong("second_loader_whole", "unlabelled rows whole on each rank", "rowsDisjoint", "rows", "rowsPerStep", "input"),
    wrong("second_optimizer_half_as_often", "the head steps half as often", "steps", "optimizers"),
    wrong("accumulates_in_one_process_only", "twice the steps with workers", "steps", "rowsPerStep"),
    wrong(
        "accumulates_with_workers_only", "half the steps with workers", "steps", "rowsPerStep", outcomes=NOT_SAME,
        why="a step of as many rows as each worker had alone, times the workers, is what weak scaling is, too",
    ),
    wrong(
        "validates_in_one_process_only", "no validation with workers", "validation",
        outcomes=NOT_SAME, why="a correct script that validates when its loss is low shows the same",
    ),
    wrong(
        "goes_on_from_a_checkpoint", "goes on where the arm before it was", "steps", "rows",
        outcomes=NOT_SAME, why=_ENDED_ELSEWHERE,
    ),
    wrong("lightning_limited", "half of the batches of an epoch", "steps", "rows", needs=("lightning",)),
    wrong(
        "transformers_max_steps", "max_steps by world", "steps", "rows", needs=("transformers",),
        outcomes=NOT_SAME, why=_ENDED_ELSEWHERE,
    ),
    wrong(
        "ray_train_not_prepared", "Ray Train without prepare_data_loader", "steps", "rows", "rowsDisjoint",
        arguments=RAY_TRAIN, needs=("torch", "ray"), with_ray=True,
    ),
    wrong("xgboost_half_the_rows", "XGBoost on half of the rows", "rows", **XGBOOST),
    wrong("xgboost_a_thirtieth", "XGBoost on a thirtieth", "rows", **XGBOOST),
    wrong("xgboost_all_rows", "XGBoost on all rows twice", "rows", **XGBOOST),
    wrong("xgboost_smaller_depth", "less deep trees", "boosterParameters", **XGBOOST),
    wrong("xgboost_fewer_rounds", "half the rounds", "rounds", "steps", **XGBOOST),
    wrong("lightgbm_half_the_rows", "LightGBM on half", "rows", **LIGHTGBM),
    wrong("lightgbm_fewer_leaves", "smaller trees", "boosterParameters", **LIGHTGBM),
    wrong("keras_half_the_epochs", "Keras' fit, half the epochs", "rounds", needs=("keras",)),
    wrong("keras_smaller_network", "Keras' fit, half the layer", "parameters", needs=("keras",)),
    wrong(
        "keras_half_the_rows", "Keras' fit, half the rows twice", "rows",
        outcomes=NOT_SAME, needs=("keras",),
        why="which rows a tf.data pipeline gives is not known; that an epoch has half the steps is",
    ),
    wrong("plateau_rate_by_world", "ReduceLROnPlateau, rate times world size", "learningRate", quick=True),
    wrong("plateau_patience_by_world", "ReduceLROnPlateau, another patience", "learningRate"),
    wrong(
        "warm_up_by_world", "LambdaLR, a longer warm-up", "learningRate", outcomes=NOT_SAME, why=_BY_HAND, quick=True
    ),
    wrong(
        "decay_beside_a_plateau_by_world", "ReduceLROnPlateau beside another decay", "learningRate",
        outcomes=NOT_SAME, why=_BY_HAND,
    ),
    wrong(
        "plateau_changed_by_world", "ReduceLROnPlateau, later another patience", "learningRate",
        outcomes=NOT_SAME, why=_BY_HAND,
    ),
    wrong(
        "plateau_and_a_factor_later", "ReduceLROnPlateau, and by hand the rate times world size", "learningRate",
        outcomes=NOT_SAME, why=_BY_HAND,
    ),
    wrong("rate_halved_by_hand_from_another", "halved by a loss, from another rate", "learningRate"),
    wrong(
        "rate_halved_by_epochs_of_world", "halved each epoch, or each second", "learningRate",
        outcomes=NOT_SAME, why=_BY_HAND,
    ),
    wrong(
        "drops_layers_by_world", "LayerDrop, of nearly all with workers", "trained",
        outcomes=NOT_SAME, why="gradients of both ranks are added: how often one of them drops a layer is not seen",
    ),
    wrong(
        "thaws_by_epochs_of_world", "a layer is trained from the second epoch on, or the third", "trained",
        outcomes=NOT_SAME, why=_BY_HAND,
    ),
    wrong("expert_never_trained", "a mixture of experts, one of which gets no row", "trained"),
    wrong("estimate_by_world", "the first estimate of a step times world size", "hyperparameters"),
    wrong("uneven_inputs_not_exchanged", "Join without an exchange of gradients", "weights", quick=True),
    wrong("uneven_inputs_exchange_once", "Join, and exchange in the first epoch alone", "weights"),
    wrong("uneven_inputs_stop_exchanging", "Join, and later no exchange", "weights", "steps"),
    wrong("uneven_inputs_own_noise", "Join, and later other weights on each rank", "weights"),
    wrong("uneven_inputs_by_far", "Join, half of its share on rank 1", "rows"),
    weak("weak_scaling", "a batch of each worker's own"),
    weak("accelerate_weak_scaling", "Accelerate with a batch of each process", needs=("accelerate",)),
)  # fmt: skip

RIGHT = (
    right("plain", "as the tutorial has it", quick=True),
    unknown("own_shard", "a data set of each rank's own", "rowsDisjoint", "rows", quick=True),
    right("bucketing", "a batch sampler of its own"),
    right("statistics_first", "a pass over all rows first"),
    right("statistics_with_gradients", "a pass over all rows first, gradients on"),
    right("accuracy_on_all_rows", "a pass over all rows last, gradients on"),
    right("accuracy_amid_an_epoch", "a pass over all rows amid each epoch, gradients on"),
    either(
        "first_rank_watches", "rank 0 alone has another batch, as in training", "rowsDisjoint",
        why="that batch was no part of a step, and nothing that is observed says so",
    ),
    unknown(
        "temperature_on_rank0", "rank 0 alone fits a temperature after the training", "parameters", "weights",
        "learningRate", "hyperparameters",
    ),
    right("looks_at_a_batch_first", "a batch is looked at first", quick=True),
    unknown("data_set_each_epoch", "each epoch has a data set of its own", "rows"),
    right("drops_the_last_batch", "drop_last, 1,000 rows"),
    right("accumulates_odd_batches", "15 batches, two a step, no_sync"),
    right("uneven_last_batch", "601 rows"),
    right("warms_up", "LambdaLR, up and down"),
    right("plateau_after_dropout", "ReduceLROnPlateau over a loss that dropout moves", quick=True),
    either("rate_halved_by_hand", "a rate that the script halves by its loss", "learningRate", why=_ALIKE),
    either(
        "rate_grows_with_the_loss", "a rate that grows while the loss falls", "learningRate",
        why="losses may fall alike in both runs",
    ),
    either("schedule_stepped_by_the_loss", "StepLR, stepped by the loss", "learningRate", why=_ALIKE),
    unknown(
        "restarts_on_a_plateau", "goes back with a new optimizer of half the rate, by the loss",
        "optimizers", "learningRate", "hyperparameters",
    ),
    either("decays_until_the_loss_is_low", "ExponentialLR, stepped until the loss is low", "learningRate", why=_ALIKE),
    either("averages_after_a_plateau", "SWA from a plateau on", "learningRate", why=_ALIKE),
    right("drops_layers", "LayerDrop", quick=True),
    either(
        "first_block_dropped", "stochastic depth without a stem", "input", "trained",
        why="which block is the first of a step is drawn",
    ),
    either(
        "encoder_drawn", "one of two encoders in a step", "input", "trained",
        why="it may be drawn as often in both runs",
    ),
    right("experts_by_rows", "a mixture of experts"),
    right("estimates_its_steps", "an optimizer that estimates its step"),
    right("named_parameters", "parameters with names, which have a prefix with workers"),
    right("settings_by_a_closure", "weight decay that a closure sets by the step"),
    unknown("momentum_by_the_gradients", "momentum that follows gradients", "hyperparameters"),
    either("stops_amid_an_epoch", "ends by the loss of a step", "steps", why=_ALIKE),
    either(
        "thaws_after_a_plateau", "a layer is trained from a plateau on", "trained",
        why="the plateau may come after as many epochs in both runs",
    ),
    either(
        "longer_rows_when_accurate", "a curriculum by the loss", "input", why="the loss may fall alike in both runs"
    ),
    right("skips_steps_that_overflow", "GradScaler leaves out steps"),
    either(
        "critic_when_it_is_weak", "a second optimizer that steps by its loss", "optimizers",
        why="it may step as often in both runs",
    ),
    unknown("first_rank_probes", "rank 0 alone fits a probe afterwards", "weights", "steps"),
    either(
        "tasks_drawn", "an optimizer of a task that is drawn each step", "optimizers", "trained",
        why="tasks may be drawn as often in both runs",
    ),
    either("rare_task", "a second optimizer that seldom steps", "optimizers", why=_ALIKE),
    either("validates_when_the_loss_is_low", "validates after epochs with a low loss", "validation", why=_ALIKE),
    unknown("tensor_parallel", "each rank holds a part of each layer", "weights", "parameters", "rowsDisjoint"),
    unknown("uneven_inputs", "Join: 16 and 15 batches", "weights", quick=True),
    unknown("stream", "rows without numbers", "rowsDisjoint", "rows"),
    either(
        "weighted_rows", "drawn with replacement", "rowsDisjoint", "rows",
        why="draws with replacement may share rows in one process, too: nothing says how many are too many",
    ),
    right("subset", "a subset that all ranks draw alike"),
    right("random_split", "a split with one seed, and a shared validation"),
    right("loader_processes", "rows are drawn ahead by another process"),
    unknown("part_files", "each rank reads a file of its own, in another process", "rowsDisjoint", "rows"),
    right("whole_batches_of_a_table", "a sampler of lists, 4,096 rows a step"),
    right("dealt_out_as_a_snake", "sorted rows are dealt out there and back"),
    right("loader_each_epoch", "a new DataLoader for each epoch"),
    either(
        "iterator_each_step", "next(iter(loader)) a step", "rowsDisjoint", "rows",
        why="no pass ends, so over the run both ranks come to have the same rows",
    ),
    either(
        "two_loaders", "two data sets in a step, both shared out", "rows", "rowsPerStep", "rowsDisjoint",
        why="a step has rows of two data sets: a count of one of them says nothing of the other",
    ),
    either("cycle", "itertools.cycle", "rows", "rowsPerStep", "rowsDisjoint", why=_OF_A_COPY),
    right("endless_batches", "40 steps of endless batches"),
    right("gradients_by_hand", "its own all-reduce, and a network without forward"),
    unknown("fsdp", "weights are sharded", "weights", "parameters"),
    right("compiled", "torch.compile", needs=("torch", "compiler")),
    right("muon", "groups of parameters hold tensors"),
    right("scaled_autocast", "autocast in all arms, GradScaler"),
    right("lbfgs", "a step calls the network several times"),
    right("zero_redundancy", "optimizers inside an optimizer"),
    right("gan", "two optimizers"),
    right("two_phases", "the head first, then all"),
    right("new_optimizer_each_epoch", "a new optimizer for each epoch", quick=True),
    right("student_in_the_same_optimizer", "a student takes its teacher's place in an optimizer"),
    right("models_one_after_another", "five models, each with its optimizer"),
    right("large_models", "five large models, each with its optimizer"),
    right("ensemble", "three models train in turns, an epoch each"),
    right("other_optimizer_amid_an_epoch", "Adam for 20 steps, then SGD"),
    unknown("folds", "a model and an optimizer for each fold", "rows", "rowsDisjoint"),
    right("frozen_backbone", "a head on a backbone in eval mode"),
    right("averaged_copy", "an average of the weights beside them"),
    right("recomputed", "activation checkpointing"),
    right("sequence_first", "time comes before rows"),
    either(
        "padded_texts", "each batch is padded to its longest", "input", "rowsDisjoint",
        why="two half batches have fewer words than one: of the same rows, it is not known to be as much",
    ),
    either("watches_with_gradients", "a validation batch each step, gradients on", "rows", "rowsPerStep", why=_OF_EVAL),
    right("every_rank_validates", "every rank validates on all rows"),
    right("first_rank_validates", "rank 0 alone validates"),
    right("stops_early", "ends by a loss of all ranks"),
    right("in_a_thread", "trains in a thread"),
    unknown("prefetch_thread", "a thread reads ahead", "rowsPerStep", "rows"),
    right("own_sitecustomize", "starts itself again with a sitecustomize of its own"),
    right("batch_norm", "running statistics of each rank's own"),
    right("unused_and_tied", "a layer without gradients, one with two names"),
    either(
        "optimizer_each_parameter", "one optimizer a parameter, within the backward pass", "rowsPerStep", "optimizers",
        why="one of four optimizers steps while others have not: a step of the training is not one of any of them",
    ),
    right("own_optimizer", "an optimizer of its own"),
    Case(
        name="right/no_optimizer", what="no optimizer", outcomes=frozenset({"it finished"}),
    ),
    unknown("no_module", "weights without a module", "input"),
    right("two_views", "a batch is seen twice in a step"),
    right("accelerate_quick_tour", "Accelerate", needs=("accelerate",)),
    right("accelerate_accumulates", "Accelerate, two batches a step", needs=("accelerate",)),
    right("lightning_trainer", "Lightning with a validation", needs=("lightning",)),
    right("transformers_trainer", "Transformers' Trainer", needs=("transformers",)),
    right("spawn", "torch.multiprocessing.spawn", arguments="--workers {workers}"),
    right("ray_train_checkpoints", "Ray Train", arguments=RAY_TRAIN, needs=("torch", "ray"), with_ray=True),
    unknown("xgboost_own_share", "XGBoost", "rows", "rowsDisjoint", **XGBOOST, with_ray=True),
    unknown("lightgbm_own_share", "LightGBM", "rows", "rowsDisjoint", **LIGHTGBM),
    unknown("keras_fit", "Keras' fit, tf.data", "rows", "rowsPerStep", "rowsDisjoint", needs=("keras",)),
    unknown("keras_fit_arrays", "Keras' fit, arrays", "rows", "rowsPerStep", "rowsDisjoint", needs=("keras",)),
    Case(
        name="right/keras_own_loop", what="a loop of its own", needs=("keras",),
        outcomes=frozenset({"it finished", "same script"}), why="a step of GradientTape is one where it is seen at all",
    ),
)  # fmt: skip

BEYOND = (
    beyond("autocast_inside", "autocast for the last layer alone"),
    beyond("drops_more_layers", "LayerDrop, of half as many more"),
    beyond("estimates_otherwise", "an optimizer that makes twice as much of its gradients"),
    beyond("other_activation", "another activation"),
    beyond("plateau_of_another_metric", "ReduceLROnPlateau by the loss of one row"),
    beyond("fewer_passes_of_a_block", "half the passes of a shared block"),
    beyond("rows_cut_inside", "half of the rows are dropped behind the first layer"),
    beyond("smaller_second_input", "the second of two inputs is smaller"),
)
"""Wrong, and by no item of the list: they are shown, and nothing is expected of them."""

CASES = (*WRONG, *RIGHT)

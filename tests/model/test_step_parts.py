"""What parts of a step are by their names, as loops and frameworks print them."""

import polars as pl
import pytest

from ncclforensics.model import step_parts

NAMES = {
    step_parts.DATA: "data_time Data t_data data_s dataloader_ms train_dataloader_next "
    "batch_input_time batch-generator time_metrics/data_loading(s) data_wait_ms",
    step_parts.COMPUTE: "fwd forward_time fwd_microstep t_fwd training_step compute_ms "
    "forward-compute backward-compute bwd_inner_microstep t_expert",
    step_parts.BACKWARD: "bwd backward t_bwd backward_ms bwd_microstep",
    step_parts.PHASE: "forward-backward fwd_bwd",
    step_parts.REDUCE: "allreduce_s grad_sync all-grads-sync params-all-gather t_a2a "
    "bwd_allreduce_microstep optimizer-clip-main-grad dp_sync",
    step_parts.WAIT: "comm comm_wait_ms t_sync wait_allreduce forward-recv barrier_ms",
    step_parts.WHOLE: "time step_time t_step iteration_time total step_ms batch_time",
    step_parts.OTHER: "optimizer opt_s step optimizer_step update",
    step_parts.UNSAID: "grad_norm halt_x drain_ms",
    None: "loss lr eta last_time last_data_time samples_per_s",
}


@pytest.mark.parametrize("kind", NAMES, ids=str)
def test_a_part_is_known_by_its_words(kind):
    names = pl.DataFrame({"name": NAMES[kind].split()})
    told = names.with_columns(kind=step_parts.kinds(step_parts.named(pl.col("name"))))
    assert dict(told.iter_rows()) == dict.fromkeys(names["name"], kind)

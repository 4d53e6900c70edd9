"""Texts of torch 2.13 with Gloo under TORCH_DISTRIBUTED_DEBUG=DETAIL."""

from ncclforensics.parsers.logs.message_parsers import fingerprint

OPTIONS = (
    "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), "
    "device=cpu, layout=Strided (default), requires_grad=false (default), "
    "pinned_memory=false (default), memory_format=(nullopt))"
)


def mismatch(own: str, peer: str, differs: str) -> str:
    return (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is "
        f"running collective: CollectiveFingerPrint({own}), but Rank 0 is running "
        "collective: "
        f"CollectiveFingerPrint({peer}).Collectives differ in the following aspects: "
        f"\t {differs}"
    )


def test_both_sides_with_tensors_are_believed():
    rows = fingerprint.parse(
        mismatch(
            f"SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[10, 100], {OPTIONS}",
            f"SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[10, 128], {OPTIONS}",
            "Tensor Tensor shapes: 10 100vs 10 128",
        )
    )
    own, peer = rows
    assert own == {
        "group_rank": 1,
        "seq": 4,
        "op": "ALLREDUCE",
        "shape": [10, 100],
        "dtype": "Float",
        "device": "cpu",
        "is_peer": False,
        "op_reliable": True,
        "differs": ["shape"],
    }
    assert (peer["group_rank"], peer["shape"]) == (0, [10, 128])
    assert (peer["is_peer"], peer["op_reliable"]) == (True, True)


def test_an_operation_that_is_decoded_out_of_a_length_is_not_believed():
    # rank 0 really called all_reduce with a 2-D tensor
    own, peer = fingerprint.parse(
        mismatch(
            f"SequenceNumber=0, OpType=REDUCE, TensorShape=[10], {OPTIONS}",
            "SequenceNumber=0OpType=SCATTER",
            "Op type: REDUCEvs SCATTER",
        )
    )
    assert own["op_reliable"]
    assert (peer["op"], peer["op_reliable"]) == ("SCATTER", False)


def test_between_calls_without_tensors_only_a_possible_length_is_doubted():
    _, scatter = fingerprint.parse(
        mismatch("SequenceNumber=7OpType=BARRIER", "SequenceNumber=7OpType=SCATTER", "")
    )
    _, coalesced = fingerprint.parse(
        mismatch(
            "SequenceNumber=7OpType=BARRIER",
            "SequenceNumber=7OpType=ALLREDUCE_COALESCED",
            "",
        )
    )
    assert not scatter["op_reliable"]
    assert coalesced["op_reliable"]


def test_a_number_that_is_glued_to_the_operation_is_read():
    own, _ = fingerprint.parse(
        mismatch(
            "SequenceNumber=1649OpType=BARRIER", "SequenceNumber=0OpType=REDUCE", ""
        )
    )
    assert (own["seq"], own["op"], own["shape"]) == (1649, "BARRIER", None)


def test_the_oldest_form_names_one_rank_and_no_number():
    rows = fingerprint.parse(
        "Detected mismatch between collectives on ranks. Rank 2 is running "
        "inconsistent collective: CollectiveFingerPrint(OpType=BROADCAST, "
        "TensorShape=[], " + OPTIONS
    )
    assert [(r["group_rank"], r["seq"], r["shape"]) for r in rows] == [(2, None, [])]


def test_a_text_that_breaks_off_gives_what_came_before():
    whole = mismatch(
        f"SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[10], {OPTIONS}",
        f"SequenceNumber=4, OpType=BROADCAST, TensorShape=[10], {OPTIONS}",
        "Op type: ALLREDUCEvs BROADCAST",
    )
    rows = fingerprint.parse(whole[: whole.index(", but Rank") + 20])
    assert [row["op"] for row in rows] == ["ALLREDUCE"]


def test_all_aspects_that_differ_are_told():
    rows = fingerprint.parse(
        mismatch(
            f"SequenceNumber=101, OpType=ALLREDUCE, TensorShape=[25], {OPTIONS}",
            "SequenceNumber=0OpType=REDUCE",
            "Sequence number: 101vs 0  Op type: ALLREDUCEvs REDUCE  "
            "Tensor Tensor shapes: 25vs   Tensor Tensor dtypes: Floatvs   "
            "Tensor Tensor devices: TensorOptions(device=cpu)vs ",
        )
    )
    assert rows[0]["differs"] == ["seq", "op", "shape", "dtype", "device"]

"""A transfer over EFA that failed names the instance at its other end."""

from log_lines import verdict

LINE = (
    "libfabric:4121:1787220000::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, "
    "message: Unresponsive remote (was previously responsive) My EFA addr: "
    "fi_addr_efa://[fe80::1]:0:1 My host id: i-00000000000000001 Peer EFA addr: "
    "fi_addr_efa://[fe80::2]:0:9 Peer host id: {peer} (13)\n"
)


def test_the_peer_is_named_by_its_instance(analyzed):
    told = verdict(analyzed({"gpu0007.log": LINE.format(peer="i-00000000000000002")}))
    assert told == ("ib-error", (), ("i-00000000000000002",))


def test_a_peer_that_is_not_known_is_not_made_up(analyzed):
    found = analyzed({"gpu0007.log": LINE.format(peer="N/A")}).ranked
    assert all("N/A" not in f.hosts for _, f in found.findings)


def test_the_words_of_old_releases_are_read(analyzed):
    text = (
        "libfabric:7:1787220000::efa:cq:rxr_cq_write_tx_error():243<warn> "
        "rxr_cq_write_tx_error: err: 113, prov_err: Unresponsive receiver (4)\n"
    )
    top = analyzed({"job.log": text}).ranked.verdict
    assert (top.slug, top.hosts) == ("ib-error", ())
    assert "Unresponsive receiver" in top.headline
    info = text.replace("prov_err", "done").replace("<warn>", "<info>")
    assert analyzed({"job.log": info}).ranked.verdict is None

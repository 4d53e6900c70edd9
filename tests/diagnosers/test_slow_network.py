"""slow-network names the slower card's host; a host without a fast network is right."""

from nccl_lines import found, info

SLUG = "slow-network"
CARD = (
    "NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed={} context=0x7f00 "
    "pciPath=/sys/devices/pci0000:15 ar=1"
)
CHANGE = "NET/IB : mlx5_4:1 speed change detected: {} -> {} Mbps"
DEVICES = "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"


def cards(*speeds):
    return {
        f"rank_{n}.log": info(f"gpu{n}", CARD.format(speed))
        for n, speed in enumerate(speeds)
    }


def test_a_link_that_fell_names_its_host(analyzed):
    line = info("gpu1", CHANGE.format(400000, 200000))
    (finding,) = found(analyzed({"a.log": line}), SLUG)
    assert finding.hosts == ("gpu1",)
    assert "mlx5_4 fell from 400 to 200 Gbit/s" in finding.headline


def test_a_link_that_rose_again_is_silent(analyzed):
    lines = [CHANGE.format(400000, 200000), CHANGE.format(200000, 400000)]
    assert not found(analyzed({"a.log": info("gpu1", *lines)}), SLUG)
    assert not found(analyzed({"a.log": info("gpu1", lines[1])}), SLUG)


def test_the_host_whose_card_is_slower_than_the_others_is_named(analyzed):
    (finding,) = found(analyzed(cards(400000, 200000, 400000)), SLUG)
    assert finding.hosts == ("gpu1",)
    assert any("mlx5_0" in step and "gpu1" in step for step in finding.remedy)


def test_one_faster_card_among_slow_ones_accuses_nobody(analyzed):
    assert not found(analyzed(cards(200000, 400000, 200000)), SLUG)


def test_equal_cards_are_silent(analyzed):
    assert not found(analyzed(cards(400000, 400000)), SLUG)


def test_sockets_beside_listed_devices_fire(analyzed):
    text = info("gpu1", DEVICES, "Using network Socket")
    (finding,) = found(analyzed({"a.log": text}), SLUG)
    assert (finding.hosts, finding.confidence) == (("gpu1",), "possible")


def test_sockets_without_devices_and_devices_in_use_are_silent(analyzed):
    texts = ("NET/IB : No device found.", "Using network Socket")
    assert not found(analyzed({"a.log": info("gpu1", *texts)}), SLUG)
    assert not found(
        analyzed({"a.log": info("gpu1", DEVICES, "Using network IB")}), SLUG
    )


def test_sockets_where_the_environment_names_cards_that_are_not_found_fire(analyzed):
    asked = "NCCL_IB_HCA set to mlx5_0:1,mlx5_1:1"
    texts = (asked, "NET/IB : No device found.", "Using network Socket")
    (finding,) = found(analyzed({"a.log": info("gpu1", *texts)}), SLUG)
    assert (finding.hosts, finding.confidence) == (("gpu1",), "possible")
    assert "NCCL_IB_HCA" in finding.headline


STEP = (
    " [2026-11-20 12:00:00] iteration {n:8}/ 500 | consumed samples: {n} | elapsed "
    "time per iteration (ms): {ms:.1f} | global batch size:    64 | lm loss: 2.5 |\n"
)
PORT = "Settings for ens3np0:\n\tSpeed: {}Mb/s\n\tLink detected: yes\n"


def ports(*speeds, slows=True):
    later = 2_500 if slows else 1_000
    steps = enumerate([1_000] * 20 + [later] * 20, 1)
    log = "".join(STEP.format(n=n, ms=ms) for n, ms in steps)
    return {"job.log": log} | {
        f"ethtool-gpu000{n}.txt": PORT.format(speed) for n, speed in enumerate(speeds)
    }


def test_of_a_job_that_became_slow_the_host_whose_port_is_slower_is_named(analyzed):
    (finding,) = found(analyzed(ports(100_000, 10_000, 100_000)), SLUG)
    assert (finding.hosts, finding.confidence) == (("gpu0001",), "likely")
    assert "ens3np0 runs at 10 Gbit/s" in finding.headline


def test_a_slower_port_of_a_job_that_goes_as_before_is_none_of_its_concern(analyzed):
    assert not found(analyzed(ports(100_000, 10_000, 100_000, slows=False)), SLUG)


def test_equal_ports_leave_a_slowdown_without_a_host(analyzed):
    (finding,) = found(analyzed(ports(10_000, 10_000, 10_000)), SLUG)
    assert (finding.hosts, finding.confidence) == ((), "possible")

"""What a vendor's tool counts against a GPU is told, and accuses no rank."""

import pytest

from log_lines import found, init, kernel, timeout, verdict

JOB = init(0, 2, bus="55000") + init(1, 2, "gpu0002", bus="9b000")
# rendered from the fields that nvidia-smi documents
TEXT = """GPU 00000000:9B:00.0
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : {width}x
    ECC Errors
        Volatile
            DRAM Uncorrectable            : {errors}
        Aggregate
            DRAM Uncorrectable            : 9
    Remapped Rows
        Pending                           : No
        Remapping Failure Occurred        : {failure}
"""
XML = """<nvidia_smi_log>
	<gpu id="00000000:9B:00.0">
		<pci><pci_gpu_link_info><link_widths>
			<max_link_width>16x</max_link_width>
			<current_link_width>{width}x</current_link_width>
		</link_widths></pci_gpu_link_info></pci>
		<ecc_errors>
			<volatile><dram_uncorrectable>{errors}</dram_uncorrectable></volatile>
			<aggregate><dram_uncorrectable>9</dram_uncorrectable></aggregate>
		</ecc_errors>
		<remapped_rows><remapped_row_failure>{failure}</remapped_row_failure></remapped_rows>
		<fabric><state>{fabric}</state></fabric>
		<clocks_event_reasons>
			<clocks_event_reason_hw_thermal_slowdown>{hot}</clocks_event_reason_hw_thermal_slowdown>
		</clocks_event_reasons>
	</gpu>
</nvidia_smi_log>
"""
WELL = {"width": 16, "errors": 0, "failure": "No", "fabric": "Completed"}
WELL["hot"] = "Not Active"


def asked(analyzed, form, extra="", **ill):
    smi = form.format(**WELL | ill)
    files = {"job.log": JOB + timeout(0) + extra, "nvidia-smi-gpu0002.txt": smi}
    return analyzed(files)


def told(analysis):
    said = (s.missing for s in analysis.ranked.not_checked if s.slug == "gpu-fault")
    return next((text for text in said if "not since when" in text), "")


@pytest.mark.parametrize("form", [TEXT, XML], ids=["text", "xml"])
@pytest.mark.parametrize(
    ("ill", "words"),
    [
        ({"errors": 3}, "3 uncorrectable memory errors"),
        ({"failure": "Yes"}, "remapping of memory rows failed"),
        ({"width": 8}, "8 lanes, not 16"),
    ],
)
def test_a_defect_is_told_with_its_rank_and_accuses_nobody(analyzed, form, ill, words):
    analysis = asked(analyzed, form, **ill)
    assert words in told(analysis)
    assert "gpu0002 (rank 1)" in told(analysis)
    assert not found(analysis, "gpu-fault")


@pytest.mark.parametrize("form", [TEXT, XML], ids=["text", "xml"])
def test_a_gpu_that_is_well_is_not_told(analyzed, form):
    assert not told(asked(analyzed, form))


def test_beside_an_xid_it_is_a_witness(analyzed):
    xid = kernel("NVRM: Xid (PCI:0000:9b:00): 48, pid=41, name=python", "gpu0002")
    analysis = asked(analyzed, TEXT, extra=xid, errors=3)
    assert verdict(analysis)[:2] == ("gpu-fault", (1,))
    assert "3 uncorrectable memory errors" in analysis.ranked.verdict.explanation


def test_xml_tells_of_the_fabric_and_of_heat_as_the_text_does(analyzed):
    assert found(asked(analyzed, XML, fabric="In Progress"), "fabric-manager")
    assert found(asked(analyzed, XML, hot="Active"), "thermal-throttle")
    well = asked(analyzed, XML)
    assert not found(well, "fabric-manager")
    assert not found(well, "thermal-throttle")


# rendered from the sources of rocm_smi.py, and from what nvidia-smi documents
BLOCKS = "Block       Status  Correctable Error  Uncorrectable Error"
RAS = f"GPU[1]\t\t: RAS INFO:\n         {BLOCKS}\n" + (
    "           UMC      ENABLED                 12                    {n}\n"
    "         ATHUB     DISABLED\n"
    "           GFX      ENABLED                  0                    0\n"
)
RAS_BEFORE = f"GPU[1] \t\t: GPU RAS info \nGPU[1] \t\t:        {BLOCKS} \n" + (
    "GPU[1] \t\t:       UMC      ENABLED                  0                    {n} \n"
)
ROW = (
    "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |        0 |\n"
    "| N/A   34C    P0             117W /  700W |   70123MiB /  81559MiB |    100% |\n"
    "|   1  NVIDIA H100 80GB HBM3          On  |   00000000:3B:00.0 Off |   {n} |\n"
    "|{n}  {n} {n}            {n} / {n}   |   70123MiB /  81559MiB |    {n} |\n"
)
LINKS = (
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-6d1d)\n\t Link 0: CRC Errors: 0\n"
    "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-77aa)\n\t Link 4: CRC Errors: {n}\n"
)
LANES = (
    "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-77aa)\n"
    "\t Link 0: 26.562 GB/s\n\t Link 1: {n}\n"
)
STATES = [
    (RAS, 3, 0, "GPU 1: 3 uncorrectable memory errors"),
    (RAS_BEFORE, 2, 0, "GPU 1: 2 uncorrectable memory errors"),
    (ROW, "ERR!", "0", "GPU 00000000:3B:00.0: ERR! for what cannot be read"),
    (LINKS, 90211, 0, "GPU 1: 90211 errors of its NVLinks"),
    (LANES, "<inactive>", "26.562 GB/s", "GPU 1: 1 NVLinks inactive"),
]


@pytest.mark.parametrize(("form", "ill", "well", "words"), STATES)
def test_a_table_of_states_tells_which_gpu_is_ill(analyzed, form, ill, well, words):
    analysis = analyzed({"out.txt": form.format(n=ill)})
    assert words in told(analysis)
    assert analysis.ranked.verdict is None
    assert not told(analyzed({"out.txt": form.format(n=well)}))


DIAG = "| GPU Memory                | {result:<46} |\n"


def test_a_failed_test_of_dcgm_makes_a_fault_possible(analyzed):
    diag = DIAG.format(result="Fail - GPU: 3")
    analysis = analyzed({"job.log": JOB + timeout(0), "dcgmi-gpu0002.txt": diag})
    [(_, finding)] = found(analysis, "gpu-fault")
    assert (finding.confidence, finding.hosts) == ("possible", ("gpu0002",))


def test_a_passed_test_of_dcgm_says_nothing(analyzed):
    diag = DIAG.format(result="Pass - All")
    analysis = analyzed({"job.log": JOB + timeout(0), "dcgmi-gpu0002.txt": diag})
    assert not found(analysis, "gpu-fault")


# DCGM 4 names the GPUs below the test; the JSON is of DCGM 3, and of DCGM 4
FOUR = (
    "| memory_bandwidth          | {result:<46} |\n"
    "|                           | GPU3: {result:<40} |\n"
)
JSON = (
    '{{"DCGM GPU Diagnostic": {{"test_categories": [{{"category": "Hardware", "tests": '
    '[{{"name": "GPU Memory", "results": [{{"gpu_ids": "3", "status": "{result}"}}]}}]}}'
    "]}}}}\n"
)
ENTITIES = """{{
  "DCGM Diagnostic" : {{
    "test_categories" : [ {{ "tests" : [
      {{ "name" : "memory", "results" : [
        {{ "entity_group" : "GPU", "entity_id" : 2, "status" : "Pass" }},
        {{ "entity_group" : "GPU", "entity_id" : 3, "status" : "{result}" }} ] }} ] }} ]
  }}
}}
"""


@pytest.mark.parametrize("form", [FOUR, JSON, ENTITIES], ids=["four", "json", "json 4"])
def test_every_form_of_dcgm_names_the_gpu_that_failed(analyzed, form):
    def diagnosed(result):
        text = form.format(result=result)
        files = {"job.log": JOB + timeout(0), "dcgmi-gpu0002.txt": text}
        return found(analyzed(files), "gpu-fault")

    [(_, finding)] = diagnosed("Fail")
    assert (finding.confidence, finding.devices) == ("possible", ("3",))
    assert not diagnosed("Pass")


AMD = "GPU: 3\n    ECC:\n        TOTAL_UNCORRECTABLE_COUNT: {count}\n"
XGMI = "GPU[3]\t\t: XGMI Error count: {count} (what the file says)\n"


@pytest.mark.parametrize("form", [AMD, XGMI], ids=["ecc", "xgmi"])
def test_amds_tools_are_told_and_accuse_nobody(analyzed, form):
    def missing(count):
        text = form.format(count=count)
        files = {"job.log": JOB + timeout(0), "amd-smi-gpu0002.txt": text}
        analysis = analyzed(files)
        assert not found(analysis, "gpu-fault")
        said = [s for s in analysis.ranked.not_checked if s.slug == "gpu-fault"]
        return [s.missing for s in said if "GPU 3 on gpu0002" in s.missing]

    assert missing(2)
    assert not missing(0)


def test_a_list_of_states_alone_is_no_job(analyzed):
    for text in (AMD.format(count=0), TEXT.format(**WELL)):
        report = analyzed({"state.txt": text}).report
        assert report.outcome == "inconclusive"

"""The types of the program's answers. Written by go test ./lifetime/answer -update; docs/manual/json.md describes the fields."""

from __future__ import annotations

from typing import Any, TypedDict


class Account(TypedDict):
    """Account divides a capacity among who has it at a failure."""

    capacity_bytes: int
    live_bytes: int | None
    idle_bytes: int | None
    outside_bytes: int | None
    others_bytes: int | None
    free_bytes: int | None
    unaccounted_bytes: int


class Capture(TypedDict):
    """Capture describes the contents of one capture."""

    file: str
    format: str
    producer: str
    settings: dict[str, str]
    damaged: bool
    spaces: list[Space]
    losses: list[Loss]


class CaptureOps(TypedDict):
    """CaptureOps are the operations of one capture."""

    file: str
    operations: list[Operation]


class Change(TypedDict):
    """Change is one step or, if calls were recorded, one call."""

    begin: int
    allocated_bytes: int
    freed_bytes: int
    change_bytes: int


class DeviceBytes(TypedDict):
    """DeviceBytes is what a device had in use."""

    id: str
    bytes: int


class Diff(TypedDict):
    """Diff lists the differences between two captures."""

    schema: str
    next: str
    before: Capture
    after: Capture
    rows: list[DiffRow]
    findings: DiffFindings
    lines_compared: bool
    places_unknown: bool
    per_step: bool
    verdict: str
    categories: list[DiffCategory]
    waterfalls: list[DiffWaterfall]


class DiffCategory(TypedDict):
    """DiffCategory is the memory of one category at the peaks of a memory ID."""

    space: str
    name: str
    before_bytes: int
    after_bytes: int
    delta_bytes: int
    how: str


class DiffFigure(TypedDict):
    """DiffFigure has the figures of a call site in one capture."""

    peak_bytes: int
    peak_requested_bytes: int
    end_bytes: int
    end_requested_bytes: int
    allocated_bytes: float
    count: int
    allocations: int


class DiffFindings(TypedDict):
    """DiffFindings compares the findings of both captures."""

    new: list[Finding]
    fixed: list[Finding]
    still: list[Finding]


class DiffRow(TypedDict):
    """DiffRow is a call site that differs."""

    space: str
    status: str
    site: Site
    site_before: Site | None
    before_the_window: bool
    before: DiffFigure
    after: DiffFigure
    delta_peak_bytes: int
    delta_end_bytes: int
    delta_allocated_bytes: float


class DiffStep(TypedDict):
    """DiffStep is a part of the change of a peak."""

    name: str
    delta_bytes: int
    level_bytes: int
    how: str


class DiffWaterfall(TypedDict):
    """DiffWaterfall is the way from a peak before to the peak after: steps by category or call site, largest change first."""

    space: str
    before_bytes: int
    after_bytes: int
    steps: list[DiffStep]


class Failure(TypedDict):
    """Failure describes a failed allocation: who asked, what was there, who held it, why it failed, and what to do."""

    file: str
    space: str
    source: str
    line: int | None
    times: int
    at: int
    rank: int | None
    first: bool
    device: str
    requested_bytes: int | None
    capacity_bytes: int | None
    free_bytes: int | None
    limit_bytes: int | None
    live_bytes: int | None
    reserved_bytes: int | None
    reserved_unallocated_bytes: int | None
    private_pools_bytes: int | None
    outside_bytes: int | None
    other_processes_bytes: int | None
    needed_bytes: int | None
    exceeded_bytes: int | None
    largest_free_bytes: int | None
    rounding_bytes: int
    released_bytes: int
    retries: int
    account: Account | None
    requester: Site | None
    holders: list[Holder]
    held_by: list[Part]
    buffers: list[FailureBuffer]
    beside: list[DeviceBytes]
    reason: str
    confidence: float
    how: str
    advice: str
    proof: str | None
    advice_confidence: float | None
    next: str
    past: WhatIfScenario | None
    unfinished: bool


class FailureBuffer(TypedDict):
    """FailureBuffer is a buffer that a text lists."""

    bytes: int
    shape: str
    op: str
    padding_bytes: int | None


class Finding(TypedDict):
    """Finding is one problem, at one place of the program or in a whole memory ID."""

    rule: str
    severity: str
    leak: bool
    confidence: float
    how: str
    file: str
    space: str
    site: Site
    bytes: int
    requested_bytes: int
    count: int
    bytes_per_step: int | None
    description: str
    evidence: dict[str, Any]
    evidence_how: dict[str, str]
    suggestions: list[str]
    held_by: list[HeldBy]


class Fit(TypedDict):
    """Fit is a compiled program that the capacity has room for."""

    file: str
    space: str
    needed_bytes: int
    capacity_bytes: int


class Frame(TypedDict):
    """Frame is one level of a call stack."""

    function: str
    file: str
    line: int


class Function(TypedDict):
    """Function has the allocations and frees of the functions that --function selects, in one memory ID."""

    file: str
    space: str
    steps_inferred: bool
    steps: list[Change]


class Growth(TypedDict):
    """Growth is a call site whose live memory rises from each capture of a run to the next."""

    space: str
    site: str
    bytes: list[int]


class HeldBy(TypedDict):
    """HeldBy is what holds buffers of a leak, as the recorder found it."""

    name: str
    kind: str
    where: str
    container: str
    count: int
    of: int
    how: str


class Holder(TypedDict):
    """Holder is the memory that one call site or operation held."""

    site: Site
    category: str
    how: str
    bytes: int
    buffers: int


class Info(TypedDict, total=False):
    """Info describes the contents of captures."""

    schema: str
    next: str
    captures: list[Capture]
    ranks: list[Rank]


class Layer(TypedDict):
    """Layer is the memory of one layer: its activations, parameters, gradients and so on."""

    name: str
    bytes: int
    requested_bytes: int
    count: int
    share: float
    how: str
    categories: list[Part]


class Leaks(TypedDict, total=False):
    """Leaks has the findings of captures."""

    schema: str
    next: str
    findings: list[Finding]
    unjudged: str
    without_leaks: list[WithoutLeaks]
    ooms: list[Failure]
    functions: list[Function]
    ranks: list[Rank]
    series: list[Growth]


class Live(TypedDict):
    """Live sums up the buffers that are alive at the end."""

    count: int
    bytes: int
    requested_bytes: int
    pending_free_count: int
    pending_free_bytes: int


class Loss(TypedDict):
    """Loss is data that is missing or damaged, and the reason."""

    reason: str
    severity: str
    count: int
    bytes: int
    first: str
    text: str


class OOM(TypedDict):
    """OOM is a failed allocation."""

    at: int
    requested_bytes: int
    device_free_bytes: int | None


class OOMs(TypedDict):
    """OOMs describes the failed allocations of captures."""

    schema: str
    next: str
    ooms: list[Failure]
    fits: list[Fit]


class Operation(TypedDict):
    """Operation sums up the calls of one operation."""

    name: str
    kind: str
    calls: int
    time_ns: int
    self_time_ns: int
    host: OperationBytes
    device: OperationBytes


class OperationBytes(TypedDict):
    """OperationBytes are the changes of one kind of memory by an operation."""

    allocated_bytes: int
    freed_bytes: int
    bytes: int
    self_bytes: int


class Ops(TypedDict):
    """Ops lists the operations that changed the memory."""

    schema: str
    next: str
    captures: list[CaptureOps]


class Part(TypedDict):
    """Part is the memory of one category, phase or module."""

    name: str
    bytes: int
    requested_bytes: int
    count: int
    share: float
    how: str


class Parts(TypedDict):
    """Parts sums up memory by what it is for."""

    categories: list[Part]
    phases: list[Part]
    modules: list[Part]
    inferred: bool


class Peak(TypedDict):
    """Peak breaks down the memory of one memory ID at an instant."""

    file: str
    space: str
    at: int
    bytes: int
    rows: list[Row]
    categories: list[Part]
    phases: list[Part]
    modules: list[Part]
    inferred: bool
    older: list[Part]
    held_by: list[Part]
    layers: list[Layer]
    phase_peaks: list[PhasePeak]
    savings: list[WhatIfScenario]
    unchanged: WhatIfScenario | None
    unfinished: bool
    program: Program | None


class Peaks(TypedDict):
    """Peaks breaks down the memory of memory IDs at an instant."""

    schema: str
    next: str
    by: str
    peaks: list[Peak]


class PhasePeak(TypedDict):
    """PhasePeak is what the runs of one phase reach, and what one of them leaves behind."""

    phase: str
    part: str
    how: str
    runs: int
    peak_at: int
    peak_bytes: int
    left_bytes: int
    left: list[Part]


class Pool(TypedDict):
    """Pool is memory that only one pool and stream of the allocator can use."""

    pool: str
    stream: int | None
    peak: PoolMemory
    end: PoolMemory


class PoolMemory(TypedDict):
    """PoolMemory is the memory of a pool and stream at one instant."""

    live_bytes: int
    reserved_bytes: int
    free_bytes: int
    largest_free_bytes: int


class Program(TypedDict):
    """Program is the memory of a compiled program at an instant, by purpose, in bytes."""

    inputs_bytes: int
    donated_bytes: int
    outputs_bytes: int
    temporaries_bytes: int
    constants_bytes: int
    unknown_bytes: int
    padding_bytes: int
    reserved_bytes: int
    replicated_bytes: int
    sharded_bytes: int


class Rank(TypedDict):
    """Rank has the figures of one of several ranks, in occupied bytes."""

    rank: str
    peak_bytes: int
    end_bytes: int
    leaked_bytes: int | None


class Replay(TypedDict, total=False):
    """Replay says how much of a recording the rules of PyTorch's allocator predict."""

    addresses: int
    equal: int
    segments: int
    segments_equal: int
    refused: str


class Report(TypedDict, total=False):
    """Report is the full report about captures: contents, findings, and peaks."""

    schema: str
    next: str
    rules: str
    summary: Summary
    unjudged: str
    findings: list[Finding]
    ooms: list[Failure]
    functions: list[Function]
    ranks: list[Rank]


class Row(TypedDict):
    """Row sums up the buffers of one site and kind."""

    site: Site
    op: str
    shape: str
    dtype: str
    shapes: int
    category: str
    how: str
    bytes: int
    requested_bytes: int
    count: int
    share: float
    instr: str
    padding_bytes: int | None
    split: str
    copies: int


class Site(TypedDict):
    """Site is a call site or operation that allocated memory."""

    name: str
    function: str
    file: str
    line: int
    inferred: bool
    op: str
    stack: list[Frame]
    source: list[Frame]


class Space(TypedDict):
    """Space describes one memory ID."""

    id: str
    device: str
    module: str
    memory_space: int | None
    axis: str
    unit: str
    begin: int
    end: int
    limit_bytes: int | None
    base_bytes: int
    facts: list[str]
    allocations: int
    frees: int
    usage_only: bool
    end_bytes: int
    live: Live
    held_by: list[Part]
    reserved_bytes: int | None
    reserved_peak_bytes: int | None
    peak: TopLevel
    at_peak: Parts
    padding_bytes: int | None
    stack_bytes: int | None
    lifetime_peak_bytes: int | None
    fragmentation: float | None
    fragmentation_max: float | None
    free_bytes: int | None
    largest_free_bytes: int | None
    pools: list[Pool]
    ooms: list[OOM]
    replay: Replay | None
    steps: Steps | None
    program: Program | None


class Steps(TypedDict):
    """Steps are the iterations of the loop of a program."""

    count: int
    inferred: bool
    how: str
    confidence: float


class Summary(TypedDict):
    """Summary has the figures of all captures of a report together."""

    total_functions_analyzed: int
    total_function_calls: int
    total_memory_allocated: int
    total_execution_time: float
    analysis_timestamp: float | None


class TopLevel(TypedDict):
    """TopLevel is the peak of the memory in use."""

    bytes: int
    requested_bytes: int
    at: int
    fragmentation: float | None


class Tune(TypedDict, total=False):
    """Tune is the result of memlane tune: what programs would have needed under other settings of PYTORCH_CUDA_ALLOC_CONF."""

    schema: str
    next: str
    replay: Replay
    settings: list[TuneSetting]
    recommended: str
    unfinished: bool
    captures: list[TuneCapture]


class TuneCapture(TypedDict):
    """TuneCapture is the result for one memory ID."""

    file: str
    id: str
    replay: Replay
    settings: list[TuneSetting]


class TuneSetting(TypedDict):
    """TuneSetting is what a program would have needed under some settings."""

    conf: str
    outcome: str
    peak_reserved_bytes: int
    peak_live_bytes: int
    replayed_bytes: int
    retries: int
    segments_at_end: int
    oom_event: int | None
    how: str
    exact: bool
    peak_reserved_low_bytes: int
    peak_reserved_high_bytes: int | None


class WhatIf(TypedDict):
    """WhatIf is the result of memlane whatif: what programs would need if they were changed."""

    schema: str
    next: str
    spaces: list[WhatIfSpace]


class WhatIfRoom(TypedDict):
    """WhatIfRoom is a range of factors."""

    low_factor: float
    high_factor: float
    more: bool


class WhatIfScenario(TypedDict):
    """WhatIfScenario is what a program would need with some changes."""

    edits: list[str]
    refused: str
    exact: bool
    how: str
    peak_bytes: int | None
    replayed_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    saved_bytes: int | None
    peak_reserved_bytes: int | None
    peak_reserved_low_bytes: int | None
    peak_reserved_high_bytes: int | None
    fits: bool | None
    fits_share: float | None
    recomputed: int
    copied_bytes: int
    passes: int
    advice: str
    site: Site | None
    largest_batch: WhatIfRoom | None
    longest_sequence: WhatIfRoom | None


class WhatIfSpace(TypedDict):
    """WhatIfSpace is the result for one memory ID."""

    file: str
    id: str
    replay: Replay | None
    capacity_bytes: int | None
    one_step: bool
    unfinished: bool
    failed: bool
    searched: bool
    long: bool
    scenarios: list[WhatIfScenario]


class WithoutLeaks(TypedDict):
    """WithoutLeaks is what a program would need if it freed what leaks of a memory ID keep: a range, as when it would do so is open."""

    file: str
    space: str
    peak_bytes: int
    low_bytes: int
    high_bytes: int
    unfinished: bool

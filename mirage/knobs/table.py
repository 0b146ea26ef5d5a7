"""The table of knobs. Checks, `make help`, docs/knobs.md, the inputs of a run and the roles' variables are made from it.

A knob is given to make (`make experiment NODES=100`) or in the environment. To add one: docs/adding.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirage.cluster_events.generated import FAILURES_FORM, MAINTENANCE_FORM
from mirage.knobs import openpbs_source, slurm_source, submission
from mirage.knobs.parse import (
    CONFIG_NAME,
    FILLERS,
    MANAGERS,
    MAX_AT_ONCE,
    MAX_SHRINK,
    MAX_SPEED,
    Parser,
    at_least,
    at_once,
    calendars,
    classes,
    configs,
    cut,
    failures,
    instant,
    maintenance,
    margin,
    matching,
    names,
    one_of,
    openpbs_archive,
    optional,
    path_text,
    share,
    shrink,
    some_of,
    source_archive,
    speed,
    submission_groups,
)
from slurm_mirage.rm.slurm.front_end import MOST as MAX_FRONT_ENDS

# The loopback network has addresses for so many nodes; the preflight checks what the host can hold.
MAX_NODES = 1_000_000
# Jobs of a workload: more of them need more memory than a host has.
MAX_JOBS = 10_000_000
# Slurm counts the processors of a node in 16 bits.
MAX_CPUS = 65_535

RUN_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}"

# Purposes, by which docs/knobs.md groups the knobs.
CLUSTER = "Cluster"
WORKLOAD = "Workload"
MODELS = "Generated workloads"
TIME = "Time"
EVENTS = "Events"
SCHEDULER = "Scheduler"
COMPARISON = "Comparisons"
METRICS = "Metrics"
OUTPUT = "Runs and files"
GROUPS = (CLUSTER, WORKLOAD, MODELS, TIME, EVENTS, SCHEDULER, COMPARISON, METRICS, OUTPUT)


@dataclass(frozen=True)
class Knob:
    """One row of the table.

    name: what the user gives: NODES.
    member: part of `Knobs` and its member: nodes.count.
    default: the value as text, parsed like a given one.
    parse: parser of the text.
    may_be: allowed values, as the end of the message "NODES: ... is not possible; it may be ...".
    meaning: one line for `make help` and docs/knobs.md.
    targets: targets of the Makefile that use the knob.
    group: its purpose, one of GROUPS.
    shown: what help and documentation show instead of an empty default.
    is_input: whether another value makes another run. Inputs are compared when results/RUN exists.
    variable: name of the variable that gives the value to the roles, and that an inventory may set; empty if no role needs it.
    """

    name: str
    member: str
    default: str
    parse: Parser
    may_be: str
    meaning: str
    targets: tuple[str, ...]
    group: str
    shown: str = ""
    is_input: bool = False
    variable: str = ""

    @property
    def parameter(self) -> str:
        """Name by which domain code names this knob in a WrongUse."""
        return self.name.lower()


_STUDIES = ("study-scms", "study-suspend", "study-malleable", "study-malleable-share", "study-filler")
_COMPARE = ("compare", *_STUDIES)
_SINGLE = ("cluster", "experiment")
_BUILD = (*_SINGLE, *_COMPARE)
_MANAGED = (*_SINGLE, "compare", "study-scms")
_RUN = ("experiment", *_COMPARE)
_PLAYED = ("experiment", "compare")
_CLUSTER = (*_BUILD, "status", "watch", "shell", "capture", "teardown", "infra", "provision", "deprovision")
_OFFLINE = ("workload", "workload-report", "metrics", "simulate")
_SELECT = (*_RUN, *_OFFLINE)
_MODELLED = (*_RUN, "workload", "workload-report", "simulate")

TABLE = (
    Knob(
        "INVENTORY",
        "cluster.inventory",
        "inventories/local",
        path_text,
        "a folder or file of an Ansible inventory",
        "hosts: a folder like inventories/local",
        _CLUSTER,
        is_input=True,
        group=CLUSTER,
    ),
    Knob(
        "CLUSTER",
        "cluster.name",
        "mirage",
        matching(r"[a-z][a-z0-9-]{0,20}"),
        "a lower-case letter followed by up to 20 lower-case letters, digits or -",
        "name of the instance, whose folder is /var/lib/slurm-mirage/CLUSTER",
        _CLUSTER,
        is_input=True,
        group=CLUSTER,
        variable="mirage_cluster",
    ),
    Knob(
        "PORT",
        "cluster.port",
        "",
        optional(at_least(1024, most=65535)),
        "a port from 1024 to 65535",
        "first port of the instance, which remembers it",
        _BUILD,
        shown="first free block",
        group=CLUSTER,
        variable="mirage_port",
    ),
    Knob(
        "BUSY",
        "cluster.busy",
        "refuse",
        one_of("refuse", "wait"),
        "refuse or wait",
        "what to do while another run goes on in CLUSTER: refuse this one, or wait for its end",
        _RUN,
        group=CLUSTER,
    ),
    Knob(
        "NODES",
        "nodes.count",
        "360",
        at_least(1, most=MAX_NODES),
        f"a whole number from 1 to {MAX_NODES}",
        "emulated nodes (slurmd) over all the compute hosts",
        (*_BUILD, *_OFFLINE),
        is_input=True,
        group=CLUSTER,
        variable="mirage_nodes",
    ),
    Knob(
        "CPUS",
        "nodes.cpus",
        "16",
        at_least(1, most=MAX_CPUS),
        f"a whole number from 1 to {MAX_CPUS}",
        "processors of each node",
        (*_BUILD, *_OFFLINE),
        is_input=True,
        group=CLUSTER,
        variable="mirage_cpus",
    ),
    Knob(
        "CLASSES",
        "nodes.classes",
        "",
        optional(classes),
        "the path of a YAML list of classes of nodes, like machines/example.yml",
        "file with classes of nodes, instead of NODES and CPUS, like machines/example.yml",
        (*_BUILD, *_OFFLINE),
        shown="all nodes are equal",
        is_input=True,
        group=CLUSTER,
    ),
    Knob(
        "TRACE",
        "workload.trace",
        "",
        path_text,
        "the path of an SWF log (.swf, .swf.gz), of the output of sacct (-P, -p, --json or CSV), or of Batsim's jobs.csv",
        "recorded log: SWF, sacct's output, Batsim's jobs.csv; metrics also reads jobs.csv and sigsleep.log",
        _SELECT,
        shown="a generated workload",
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "JOBS",
        "workload.jobs",
        "",
        optional(at_least(1, most=MAX_JOBS)),
        f"a whole number from 1 to {MAX_JOBS}",
        "how many jobs to take, or to generate",
        _SELECT,
        shown="all",
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "OFFSET",
        "workload.offset",
        "0",
        at_least(0),
        "a whole number from 0 on",
        "how many jobs to leave out at the beginning",
        _SELECT,
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "MIN_RUNTIME",
        "workload.min_runtime",
        "0",
        at_least(0, whole=False),
        "a number of seconds from 0 on",
        "leave out jobs that ran less (seconds of the trace)",
        _SELECT,
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "FROM",
        "workload.begin",
        "",
        optional(instant),
        "seconds of the trace from 0 on, or a date: 2016-04-01, 2016-04-01T12:00:00",
        "take jobs submitted from then on: seconds of the trace, or a date",
        (*_SELECT, "capture"),
        shown="the beginning",
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "TO",
        "workload.end",
        "",
        optional(instant),
        "seconds of the trace from 0 on, or a date: 2016-05-01, 2016-04-01T18:00:00",
        "take jobs submitted before then",
        (*_SELECT, "capture"),
        shown="the end",
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "QUEUES",
        "workload.queues",
        "",
        names,
        "numbers of the log's queues, or their names in its header, separated by commas: 1,3",
        "take jobs of these queues (numbers or names, separated by commas)",
        _SELECT,
        shown="all",
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "USERS",
        "workload.users",
        "",
        names,
        "numbers of the log's users, separated by commas: 12,40",
        "take jobs of these users (numbers, separated by commas)",
        _SELECT,
        shown="all",
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "SIZES",
        "jobs.sizes",
        "keep",
        one_of("keep", "scale", "fit"),
        "keep, scale or fit",
        "jobs made for another machine: keep their sizes, scale them to this one, or leave out what does not fit",
        (*_RUN, "workload", "simulate"),
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "PRESET",
        "jobs.preset",
        "none",
        one_of("none", "running", "all"),
        "none, running or all",
        "also take jobs that were running (all: or queued) when the selection begins, as far as they were not over",
        (*_RUN, "workload", "simulate"),
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "DEPENDENCIES",
        "jobs.dependencies",
        "keep",
        one_of("keep", "think", "none"),
        "keep, think or none",
        "jobs that wait for others: keep those of sacct; think: fields 17 and 18 of SWF, submitted that long after the other's end",
        _RUN,
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "EVENTS",
        "events.files",
        "",
        calendars,
        "the path of a CSV file of events, without blanks; for make compare several paths, or none for a run without",
        "CSV file of what happens to the cluster: instant, action, target, argument (docs/events.md)",
        _PLAYED,
        shown="none",
        is_input=True,
        group=EVENTS,
    ),
    Knob(
        "FAILURES",
        "events.failures",
        "",
        optional(failures),
        FAILURES_FORM,
        "failures of nodes: mtbf=30d repair=4h shape=0.7",
        _PLAYED,
        shown="none",
        is_input=True,
        group=EVENTS,
    ),
    Knob(
        "MAINTENANCE",
        "events.maintenance",
        "",
        optional(maintenance),
        MAINTENANCE_FORM,
        "maintenance windows: weekly tue 08:00 6h all",
        _PLAYED,
        shown="none",
        is_input=True,
        group=EVENTS,
    ),
    Knob(
        "MALLEABLE",
        "malleable.share",
        "0",
        share,
        "a share from 0 to 1 (0.5), or per cent (50% or 50)",
        "share of the jobs that change their size while they run: 0.5, or 50%; 0: none, and a cluster without the broker",
        _BUILD,
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "MALLEABLE_JOBS",
        "malleable.sizes",
        "recorded preferred=none",
        path_text,
        "MIN:MAX:FACTOR:PREFERRED with options, or a rule, as docs/malleable.md lists them",
        "sizes of malleable jobs in nodes: MIN:MAX:FACTOR:PREFERRED and options, or by the recorded size (docs/malleable.md)",
        _RUN,
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "FILLER",
        "fillers.variant",
        "no",
        some_of(*FILLERS),
        "no, slots or planned; for make compare several of them: no slots planned",
        "idle nodes run filler jobs: slots saves them at the end of each slot, planned before Slurm's plan needs their nodes",
        (*_BUILD, "simulate"),
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "FILLER_JOBS",
        "fillers.words",
        "",
        path_text,
        "work=SECONDS (or a FILE) save=S restore=S interval=S slot=S speed=C count=N, as docs/filler.md lists them",
        "filler jobs: work of each, what a save and a start cost, seconds between saves, slot, speed; later words override",
        (*_BUILD, "simulate"),
        shown="10 h of work each, saved every 10 min",
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "SHRINK",
        "jobs.shrinks",
        "100",
        shrink,
        f"a percentage above 0 and up to {MAX_SHRINK} (50, 0.2), or a sweep FROM:TO:STEP (100:50:10)",
        "per cent of the trace's times: 100 leaves them, 50 halves them, 1 makes them 100 times shorter; FROM:TO:STEP is a sweep, "
        "one run each",
        (*_RUN, "workload"),
        is_input=True,
        group=TIME,
    ),
    Knob(
        "SPEED",
        "clock.speed",
        "auto",
        speed,
        f"a number above 0 and up to {MAX_SPEED} (20, 0.5), event or auto",
        "the clock. auto: event where it can be, else the largest constant number for which the run is valid (make cluster: 1). "
        "event: the cluster's time stops while its processes compute, and jumps to the next event when all of them wait "
        "(one host). A number: all of Slurm sees time pass so many times faster; 1: real time",
        _BUILD,
        is_input=True,
        group=TIME,
        variable="mirage_speed",
    ),
    Knob(
        "CHARGE",
        "clock.charge",
        "no",
        one_of("yes", "no"),
        "yes or no",
        "SPEED=event: whether slurmctld's own processor time counts in the cluster's time, each second of it as one",
        _BUILD,
        is_input=True,
        group=TIME,
        variable="mirage_charge",
    ),
    Knob(
        "SAVES",
        "clock.saves",
        "disk",
        one_of("disk", "memory"),
        "disk or memory",
        "where slurmctld's saved state has to be before it goes on; memory: in the kernel's page cache, which is faster, but a "
        "host that crashes may lose jobs (not with SPEED=1)",
        _BUILD,
        group=TIME,
        variable="mirage_saves",
    ),
    Knob(
        "SUBMISSION",
        "jobs.groups",
        "",
        submission_groups,
        submission.FORM,
        "the thesis's scheme: groups of jobs at fixed intervals of the cluster's clock, which are not shrunk",
        _RUN,
        shown="the jobs' own times",
        is_input=True,
        group=TIME,
    ),
    Knob(
        "OVERRUN",
        "jobs.overrun",
        "extend",
        one_of("extend", "kill"),
        "extend or kill",
        "a job whose run time reaches its limit: extend the limit, or let Slurm kill it",
        _RUN,
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "CONFIG",
        "scheduler.config",
        "slurm-defaults",
        matching(CONFIG_NAME),
        "the name of a file in configs/, without .yml",
        "scheduler configuration: configs/CONFIG.yml; with SHRINK below 100 backfill, whose intervals are short",
        (*_SINGLE, "compare", "study-malleable", "study-malleable-share", "study-filler"),
        is_input=True,
        group=SCHEDULER,
        variable="mirage_config",
    ),
    Knob(
        "SLURM_CONF",
        "scheduler.slurm_conf",
        "",
        path_text,
        "the path of a slurm.conf",
        "a site's own slurm.conf: its nodes, partitions and policy instead of NODES, CPUS and CLASSES; CONFIG is then site",
        _BUILD,
        shown="none",
        is_input=True,
        group=SCHEDULER,
    ),
    Knob(
        "SLURM_SOURCE",
        "scheduler.slurm_source",
        "",
        optional(source_archive),
        slurm_source.FORM,
        "archive of a Slurm release, 16.05 to 26.05, to build and use instead of the installed packages",
        _BUILD,
        shown="packages",
        is_input=True,
        group=SCHEDULER,
    ),
    Knob(
        "RM",
        "scheduler.rm",
        "slurm",
        some_of(*MANAGERS),
        "slurm or openpbs; for make compare both of them: slurm openpbs",
        "resource manager of the cluster; openpbs needs OPENPBS_SOURCE, and CONFIG is then pbs-easy",
        _MANAGED,
        is_input=True,
        group=SCHEDULER,
        variable="mirage_rm",
    ),
    Knob(
        "OPENPBS_SOURCE",
        "scheduler.openpbs_source",
        "",
        optional(openpbs_archive),
        openpbs_source.FORM,
        "archive of OpenPBS's source, of a commit that docs/openpbs.md names or a newer one, to build and use with RM=openpbs",
        _MANAGED,
        shown="none",
        is_input=True,
        group=SCHEDULER,
    ),
    Knob(
        "CONFIGS",
        "campaign.configs",
        "",
        configs,
        "two names or more of files in configs/, without .yml: fifo backfill",
        "compare: scheduler configurations, the first one is what the others are compared with",
        _COMPARE,
        group=COMPARISON,
    ),
    Knob(
        "REPLICAS",
        "campaign.replicas",
        "",
        optional(at_least(1, most=50)),
        "a whole number from 1 to 50",
        "compare: runs of each configuration, which show the noise; with one of each nothing is claimed",
        _COMPARE,
        shown="3, or as many as take an hour",
        group=COMPARISON,
    ),
    Knob(
        "MARGIN",
        "campaign.margin",
        "5%",
        margin,
        "per cent of the baseline's mean, above 0 and at most 50",
        "compare: configurations that differ by less are equivalent",
        _COMPARE,
        group=COMPARISON,
    ),
    Knob(
        "AT_ONCE",
        "campaign.at_once",
        "auto",
        at_once,
        f"auto, or a whole number from 1 to {MAX_AT_ONCE}",
        "compare, sweeps: runs side by side, each on an instance of its own (auto: one on each host of run_hosts; with "
        "SPEED=event as many as this host can do; otherwise 1)",
        _RUN,
        group=COMPARISON,
    ),
    Knob(
        "FULL",
        "campaign.full",
        "no",
        one_of("yes", "no"),
        "yes or no",
        "studies: the published size instead of one that takes an hour or two",
        _STUDIES,
        group=COMPARISON,
    ),
    Knob(
        "STEPS",
        "nodes.steps",
        "auto",
        one_of("auto", "yes", "no"),
        "auto, yes or no",
        "srun over several nodes: slurmd that know all others (auto: up to 1000 nodes)",
        _BUILD,
        group=CLUSTER,
        variable="mirage_steps",
    ),
    Knob(
        "FRONT_END",
        "nodes.front_ends",
        "0",
        at_least(0, most=MAX_FRONT_ENDS),
        f"0, or the number of slurmd that stand for all nodes, up to {MAX_FRONT_ENDS}",
        "Slurm's front-end mode: so many slurmd stand for all nodes; 0: each node has its own",
        _BUILD,
        is_input=True,
        group=CLUSTER,
        variable="mirage_front_end",
    ),
    Knob(
        "ACCOUNTING",
        "scheduler.accounting",
        "auto",
        one_of("auto", "yes", "no"),
        "auto, yes or no",
        "slurmdbd and its database, for fair share, QOS and sacct (auto: as CONFIG says, and with MALLEABLE)",
        _BUILD,
        is_input=True,
        group=SCHEDULER,
        variable="mirage_accounting",
    ),
    Knob(
        "RUN",
        "output.run",
        "",
        optional(matching(RUN_NAME)),
        "up to 81 letters, digits, dots, dashes and underscores, not beginning with a dot or dash",
        "name of the run: results/RUN; without it an unfinished run with the same inputs is continued",
        (*_RUN, "report", "check", "metrics"),
        shown="time stamp and trace name",
        group=OUTPUT,
    ),
    Knob(
        "RUNS",
        "output.runs",
        "",
        optional(matching(rf"{RUN_NAME}(/{RUN_NAME})? +{RUN_NAME}(/{RUN_NAME})?")),
        "two names of folders in results/, or of runs in them, as in `a cmp/fifo-1`",
        "the runs to compare",
        ("diff",),
        group=OUTPUT,
    ),
    Knob(
        "SEED",
        "workload.seed",
        "1",
        at_least(0),
        "a whole number from 0 on",
        "seed of all random numbers",
        (*_RUN, "workload", "workload-report", "simulate", "figure-load"),
        is_input=True,
        group=MODELS,
    ),
    Knob(
        "MODEL",
        "workload.model",
        "",
        optional(matching(r"[a-z0-9][a-z0-9_-]*")),
        "the name of a workload model",
        "workload model, where there is no TRACE: raijin, lublin and others (docs/models.md lists them)",
        _MODELLED,
        shown="raijin; of a run: 150 short jobs",
        is_input=True,
        group=MODELS,
    ),
    Knob(
        "LOAD",
        "workload.load",
        "",
        optional(at_least(0, whole=False)),
        "the share of the machine that jobs ask for, above 0: 0.8",
        "offered load of a generated workload, by the time between submissions",
        _MODELLED,
        shown="the model's own",
        is_input=True,
        group=MODELS,
    ),
    Knob(
        "ESTIMATES",
        "workload.estimates",
        "keep",
        matching(r"keep|exact|tsafrir|(0|1|0?\.\d{1,9})"),
        "keep, exact, tsafrir, or an accuracy from 0 to 1: 0.3",
        "requested times: those of the log or model, exact, of Tsafrir's model, or of an accuracy from 0 to 1",
        ("workload", "simulate"),
        group=MODELS,
    ),
    Knob(
        "POLICY",
        "scheduler.policy",
        "easy",
        one_of("fcfs", "easy", "conservative"),
        "fcfs, easy or conservative",
        "scheduler of make simulate",
        ("simulate",),
        group=SCHEDULER,
    ),
    Knob(
        "TAU",
        "metrics.tau",
        "10",
        at_least(0, whole=False),
        "a number of seconds above 0",
        "shortest run time that the bounded slowdown divides by",
        ("metrics", "simulate"),
        group=METRICS,
    ),
    Knob(
        "W2",
        "metrics.w2",
        "magnitude",
        one_of("magnitude", "log"),
        "magnitude or log",
        "reading of the index W2: wait over 10^floor(log10 t), or over ln t",
        ("metrics", "simulate"),
        group=METRICS,
    ),
    Knob(
        "IMMEDIATE",
        "metrics.immediate",
        "",
        optional(at_least(0, whole=False)),
        "a number of seconds above 0",
        "a job that waited less started at once (seconds of the trace)",
        ("metrics", "simulate"),
        shown="1; of a run 60",
        group=METRICS,
    ),
    Knob(
        "WARMUP_CUT",
        "metrics.warmup_cut",
        "0",
        cut,
        "a number of seconds from 0 on, or a percentage of the schedule below 100: 5%",
        "cut from the schedule's beginning before it is measured: seconds of the trace, or per cent (5%); 0: nothing",
        (*_RUN, "metrics", "simulate"),
        is_input=True,
        group=METRICS,
    ),
    Knob(
        "COOLDOWN_CUT",
        "metrics.cooldown_cut",
        "0",
        cut,
        "a number of seconds from 0 on, or a percentage of the schedule below 100: 5%",
        "cut from its end before it is measured: seconds of the trace, or per cent (5%); 0: nothing",
        (*_RUN, "metrics", "simulate"),
        is_input=True,
        group=METRICS,
    ),
    Knob(
        "OUT",
        "output.out",
        "",
        path_text,
        "the path of the file to write",
        "file to write: workload's SWF or CSV, metrics' JSON, simulate's SWF or CSV; folder of workload-report and figure-load",
        (*_OFFLINE, "figure-load"),
        group=OUTPUT,
    ),
    Knob(
        "ARCHIVE",
        "output.archive",
        "",
        path_text,
        "the path of the archive to write",
        "archive that make capture writes",
        ("capture",),
        shown="results/capture-CLUSTER.tar",
        group=OUTPUT,
    ),
)

BY_NAME = {knob.name: knob for knob in TABLE}
BY_PARAMETER = {knob.parameter: knob for knob in TABLE}

# Knobs that may not change while a run goes on in the cluster. SLURM_CONF is compared by its CLASSES and CONFIG.
_IDENTITY = ("INVENTORY", "CLUSTER", "SLURM_CONF", "CLASSES")
SHAPE = ("CLASSES", *(knob.name for knob in TABLE if knob.is_input and "cluster" in knob.targets and knob.name not in _IDENTITY))

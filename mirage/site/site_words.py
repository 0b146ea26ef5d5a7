"""Which words of a site's slurm.conf(5) an emulated cluster takes over, and why it leaves the others out.

Each setting, word of a NodeName line and word of a PartitionName line that a release from 16.05 to 26.05 knows is in one of the
tables (common/read_config.c of these releases), or in setting_names.RETIRED.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurm_mirage.rm.slurm.setting_names import RETIRED

SCHEDULING = "decides about scheduling"
RESOURCES = "changes resources"
REST = "has no part in scheduling here"
GROUPS = (SCHEDULING, RESOURCES, REST)
"""Groups of what is left out, the most important one first."""

LINES = ("nodename", "nodeset", "partitionname", "downnodes", "frontendname")
"""First words of the lines of slurm.conf that describe things instead of setting a key."""
LINES_BESIDE = ("name", "switchname", "blockname", "blocksizes")
"""Those of gres.conf and topology.conf. AutoDetect is not one of them."""

TAKEN = (
    "AccountingStorageEnforce", "AccountingStorageTRES", "CompleteWait", "DefCPUPerGPU", "DefMemPerCPU", "DefMemPerGPU",
    "DefMemPerNode", "DependencyParameters", "EnforcePartLimits", "FairShareDampeningFactor", "InactiveLimit", "JobFileAppend",
    "JobRequeue", "KillOnBadExit", "KillWait", "LicenseParameters", "Licenses", "MaxArraySize", "MaxBatchRequeue",
    "MaxMemPerCPU", "MaxMemPerNode", "MaxStepCount", "MaxTasksPerNode", "OverTimeLimit", "PreemptExemptTime", "PreemptMode",
    "PreemptParameters", "PreemptType", "PriorityCalcPeriod", "PriorityDecayHalfLife", "PriorityFavorSmall", "PriorityFlags",
    "PriorityMaxAge", "PriorityParameters", "PriorityType", "PriorityUsageResetPeriod", "PriorityWeightAge",
    "PriorityWeightAssoc", "PriorityWeightFairshare", "PriorityWeightJobSize", "PriorityWeightPartition", "PriorityWeightQOS",
    "PriorityWeightTRES", "ResvOverRun", "SchedulerParameters", "SchedulerTimeSlice", "SchedulerType", "SelectType",
    "SelectTypeParameters", "TopologyParam", "TopologyPlugin", "WaitTime",
)  # fmt: skip
"""Settings that are taken over, some of them without the values that OVERRIDDEN_VALUES names."""

_OTHER_USERS = "users and accounts are those of the log, not the site's"
NO_QOS = "the site's QOS, associations and limits are in its database, which is not taken over"

OVERRIDDEN: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (SCHEDULING, "jobs are submitted as the log and `routing` say, no plugin changes them", ("JobSubmitPlugins",)),
    (SCHEDULING, "no priority comes from a program of the site's", ("PrioritySiteFactorPlugin", "PrioritySiteFactorParameters")),
    (SCHEDULING, "jobs have no labels that keep them from sharing nodes", ("MCSPlugin", "MCSParameters")),
    (SCHEDULING, "jobs have no burst buffers to wait for", ("BurstBufferType", "BurstBufferParameters")),
    (SCHEDULING, "no node is powered down, so no job waits for one", ("SuspendTime", "PowerAction")),
    (SCHEDULING, "jobs end as in the log, no exit code requeues them", ("RequeueExit", "RequeueExitHold")),
    (RESOURCES, "features of nodes do not change", ("NodeFeaturesPlugins",)),
    (RESOURCES, "no processors or memory are set aside for the system", ("AllowSpecResourcesUsage",)),
    (
        REST,
        "the instance has its own",
        (
            "ClusterName", "SlurmctldHost", "SlurmctldAddr", "SlurmctldPort", "SlurmdPort", "SlurmUser", "SlurmdUser",
            "AuthType", "AuthInfo", "AuthAltTypes", "AuthAltParameters", "CredType", "StateSaveLocation", "SlurmdSpoolDir",
            "SlurmctldPidFile", "SlurmdPidFile", "SlurmctldLogFile", "SlurmdLogFile", "SlurmSchedLogFile", "SlurmSchedLogLevel",
            "SlurmctldDebug", "SlurmdDebug", "SlurmctldSyslogDebug", "SlurmdSyslogDebug", "DebugFlags", "LogTimeFormat",
            "JobCompType", "JobCompLoc", "JobCompHost", "JobCompPort", "JobCompUser", "JobCompPass", "JobCompPassScript",
            "JobCompParams", "CommunicationParameters", "SlurmctldParameters", "SlurmdParameters", "SrunPortRange", "PluginDir",
            "PlugStackConfig", "MaxJobCount", "MinJobAge", "FirstJobId", "MaxJobId", "MaxDBDMsgs", "AccountingStorageType",
            "AccountingStorageHost", "AccountingStorageBackupHost", "AccountingStoragePort", "AccountingStoragePass",
            "AccountingStorageExternalHost", "AccountingStorageParameters", "AccountingStoreFlags", "HashPlugin", "TLSType",
            "TLSParameters", "CertgenType", "CertgenParameters", "CertmgrType", "CertmgrParameters", "DataParserParameters",
            "HttpParserType", "UrlParserType", "MetricsType", "MetricsParameters", "MetricsAuthUsers",
            "SlurmctldHttpAuthParameters", "SlurmdHttpAuthParameters", "ReconfigFlags", "PrivateData", "GroupUpdateForce",
            "GroupUpdateTime", "TrackWCKey", "DisableRootJobs",
        ),
    ),
    (
        REST,
        "jobs only sleep: nothing is bound, confined, measured or run beside them",
        (
            "ProctrackType", "TaskPlugin", "TaskPluginParam", "JobAcctGatherType", "JobAcctGatherFrequency",
            "JobAcctGatherParams", "AcctGatherEnergyType", "AcctGatherFilesystemType", "AcctGatherInterconnectType",
            "AcctGatherNodeFreq", "AcctGatherProfileType", "MpiDefault", "MpiParams", "Prolog", "Epilog", "PrologFlags",
            "PrologEpilogTimeout", "PrologTimeout", "EpilogTimeout", "TaskProlog", "TaskEpilog", "SrunProlog", "SrunEpilog",
            "PrologSlurmctld", "EpilogSlurmctld", "ResvProlog", "ResvEpilog", "PrEpPlugins", "PrEpParameters",
            "JobContainerType", "NamespaceType", "LaunchParameters", "BcastExclude", "BcastParameters", "ContainerType",
            "CpuFreqDef", "CpuFreqGovernors", "GpuFreqDef", "X11Parameters", "UnkillableStepProgram", "PropagateResourceLimits",
            "PropagateResourceLimitsExcept", "PropagatePrioProcess", "UsePAM", "VSizeFactor", "SwitchType", "SwitchParameters",
            "InteractiveStepOptions", "SbcastParameters", "ScronParameters",
        ),
    ),
    (
        REST,
        "runs or asks something of the site's",
        (
            "HealthCheckProgram", "HealthCheckInterval", "HealthCheckNodeState", "HealthCheckTimeout", "CliFilterPlugins",
            "CliFilterParameters", "MailProg", "MailDomain", "RebootProgram", "SuspendProgram", "ResumeProgram",
            "ResumeFailProgram", "SuspendRate", "SuspendTimeout", "SuspendExcNodes", "SuspendExcParts", "SuspendExcStates",
            "ResumeRate", "ResumeTimeout", "SlurmctldPrimaryOnProg", "SlurmctldPrimaryOffProg", "FederationParameters",
        ),
    ),
    (
        REST,
        "all daemons run side by side here, with time-outs of their own",
        (
            "TreeWidth", "RoutePlugin", "ReturnToService", "SlurmdTimeout", "SlurmctldTimeout", "MessageTimeout", "TCPTimeout",
            "BatchStartTimeout", "UnkillableStepTimeout", "EioTimeout", "EpilogMsgTime", "TmpFS", "MaxNodeCount",
        ),
    ),
    (REST, "follows from the Gres of the nodes", ("GresTypes",)),
)  # fmt: skip
"""Settings that the emulation sets itself or leaves out: group, reason, names. RETIRED settings are left out too."""

NO_TOPOLOGY = "no topology: all nodes are equally near"
PER_USER = "it counts the jobs of a user, and without accounting all jobs belong to one user"
NO_LIMITS = "without accounting there are no limits, and slurmctld ends by a signal when it looks for QOS (backfill.c)"
NOT_COUNTED = "without accounting GRES and licences are not counted (AccountingStorageTRES)"
WITHOUT_USERS = (PER_USER, NO_LIMITS)
"""Why something is left out of a site's configuration without its users."""
OVERRIDDEN_VALUES: Mapping[str, Mapping[str, str]] = {
    "schedulerparameters": {
        "bf_max_job_user": PER_USER,
        "bf_max_job_user_part": PER_USER,
        "bf_max_job_assoc": PER_USER,
        "assoc_limit_stop": NO_LIMITS,
        "max_rpc_cnt": "it holds the scheduler back for messages of the site's users; those of the replay come faster by SPEED",
        "max_rpc_count": "it holds the scheduler back for messages of the site's users; those of the replay come faster by SPEED",
    },
    "accountingstorageenforce": {
        "wckeys": "jobs have no wckeys",
        "all": "it asks for wckeys, which jobs do not have",
        "nojobs": "jobs are recorded here",
        "nosteps": "jobs are recorded here",
    },
    "topologyparam": dict.fromkeys(
        ("nocltdinaddrany", "noctldinaddrany", "noinaddrany", "noinaddranycont", "routepart", "routetree"),
        "all daemons run side by side here",
    ),
    "preemptmode": {"checkpoint": "Slurm has no checkpoints since 20.02"},
    "selecttypeparameters": dict.fromkeys(
        ("nhc_no", "nhc_absolutely_no", "nhc_no_steps", "other_cons_res", "other_cons_tres"), "for Cray systems only"
    ),
}
"""Parts of taken settings, in small letters, that are left out; they decide about scheduling."""

RENAMED_VALUES = {"max_job_bf": "bf_max_job_test"}
"""Words of SchedulerParameters that later releases do not start with (backfill.c)."""

PLUGINS: Mapping[str, tuple[str, ...]] = {
    "schedulertype": ("sched/backfill", "sched/builtin"),
    "selecttype": ("select/cons_tres", "select/cons_res", "select/linear"),
    "prioritytype": ("priority/multifactor", "priority/basic"),
    "preempttype": ("preempt/none", "preempt/partition_prio"),
}
"""Plugins that every emulated cluster can load."""

NODE_OVERRIDDEN: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("nodeaddr", "nodehostname", "port", "bcastaddr", "gresconf", "parameters"), (REST, "all nodes are daemons of one host")
    ),
    "state": (RESOURCES, "all nodes are there and idle when the cluster starts"),
    "reason": (REST, "all nodes are there and idle when the cluster starts"),
    "topology": (SCHEDULING, "no topology: all nodes are equally near"),
    "suspendtime": (SCHEDULING, "no node is powered down, so no job waits for one"),
    "tmpdisk": (RESOURCES, "local disks are not emulated"),
    "cpubind": (REST, "jobs only sleep: nothing is bound"),
    "cpuspeclist": (RESOURCES, "which processors are set aside is not emulated; CoreSpecCount says how many"),
}
"""Words of a NodeName line, likewise."""

NODE_TAKEN = (
    "boards", "corespeccount", "corespersocket", "cpus", "feature", "features", "gres", "memspeclimit", "procs",
    "realmemory", "restrictedcorespergpu", "sockets", "socketsperboard", "threadspercore", "tresweights", "weight",
)  # fmt: skip
"""Words of a NodeName line that are taken over."""

USUAL = {("state", "unknown"), ("state", "up"), ("state", "idle"), ("allowgroups", "all"), ("allowaccounts", "all")}
USUAL |= {("allowqos", "all"), ("allocnodes", "all"), ("hidden", "no"), ("rootonly", "no"), ("reqresv", "no")}
USUAL |= {("exclusiveuser", "no"), ("disablerootjobs", "no"), ("tmpdisk", "0"), ("corespeccount", "0"), ("memspeclimit", "0")}
"""Words with values that hold anyway; they are not reported."""

FUTURE = (RESOURCES, "nodes that are not there yet are left out")
EVENT = (REST, "the state that they had at the begin is an event of the run")
"""Of State in a NodeName line."""

NO_GROUPS = (SCHEDULING, "the host does not have the site's groups")
OF_ACCOUNTS: Mapping[str, str] = {name.lower(): name for name in ("AllowAccounts", "DenyAccounts", "AllowQos", "DenyQos", "QOS")}
"""Words of a PartitionName line, by themselves in small letters, that are taken over where the cluster has the site's accounts and
QOS."""

PARTITION_OVERRIDDEN: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("allowgroups", "allowaccounts", "denyaccounts", "exclusiveuser"), (SCHEDULING, _OTHER_USERS)),
    **dict.fromkeys(("allowqos", "denyqos", "qos"), (SCHEDULING, NO_QOS)),
    **dict.fromkeys(("allocnodes", "rootonly"), (SCHEDULING, "all jobs are submitted by the replay, from one host")),
    "reqresv": (SCHEDULING, "there are no reservations"),
    "state": (SCHEDULING, "all partitions are up"),
    "topology": (SCHEDULING, "no topology: all nodes are equally near"),
    **dict.fromkeys(
        ("powerdownonidle", "suspendtime", "suspendtimeout", "resumetimeout"),
        (SCHEDULING, "no node is powered down, so no job waits for one"),
    ),
    **dict.fromkeys(("hidden", "disablerootjobs", "cpubind"), (REST, "without effect on jobs that only sleep")),
}
"""Words of a PartitionName line, likewise."""

PARTITION_TAKEN = (
    "alternate", "default", "defaulttime", "defcpupergpu", "defmempercpu", "defmempergpu", "defmempernode", "exclusive",
    "exclusivetopo", "gracetime", "lln", "maxcpuspernode", "maxcpuspersocket", "maxmempercpu", "maxmempernode", "maxnodes",
    "maxtime", "minnodes", "nodes", "oversubscribe", "overtimelimit", "preemptmode", "priority", "priorityjobfactor",
    "prioritytier", "selecttypeparameters", "shared", "tresbillingweights",
)  # fmt: skip
"""Words of a PartitionName line that are taken over."""

UNKNOWN = "no release of Slurm from 16.05 to 26.05 has such a word"

ALL_WORDS = frozenset(
    {
        *(name.lower() for name in (*TAKEN, *RETIRED, *(name for _, _, names in OVERRIDDEN for name in names))),
        *(*LINES, *LINES_BESIDE, *NODE_TAKEN, *NODE_OVERRIDDEN, *PARTITION_TAKEN, *PARTITION_OVERRIDDEN),
    }
)
"""All these words, in small letters."""

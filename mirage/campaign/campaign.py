"""A comparison: its runs under several configurations, several times each, and the order in which they are run.

results/RUN holds a run folder CONFIG-REPLICA for each run, and comparison.json, which is computed only from these folders.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from mirage.campaign import releases
from mirage.campaign.arms import Arms, names_of, of_configurations
from mirage.campaign.at_once import first_run_host, note_on, places_of, runs_at_once
from mirage.campaign.conclusion import Member, conclude
from mirage.campaign.lanes import RunsLeft
from mirage.campaign.parts import ATTEMPTS, LONGEST_NAME, Part, ending_of, shift_of
from mirage.experiment import configuration, launch_costs, log_findings, preflight, report, run_events, run_length, runs
from mirage.experiment.calibration import speed_for
from mirage.experiment.endings import Ending, Failed, Interrupted
from mirage.experiment.instance_use import InstanceUse
from mirage.experiment.lane import Lane
from mirage.experiment.prepare import Prepared, Source, source
from mirage.experiment.remarks import remarks
from mirage.experiment.run_length import STANDING
from mirage.experiment.variables import replay_variables
from mirage.knobs.knobs import NONE, ClusterKnobs, Knobs, text_of
from mirage.knobs.parse import AUTO, Speed
from mirage.knobs.resolve import user_message
from mirage.records.file_names import ANSIBLE_LOG_FILE, EXPERIMENT_FILE, STATUS_FILE
from mirage.records.run_folder import RunFolder
from mirage.terminal.campaign_screen import RunScreen
from mirage.terminal.screen import Screen
from mirage.text.words import about
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json

CLEAN_STATE = {"mirage_fresh": True}
"""Variables of a run whose cluster has no state of the run before it."""
OF_SCHEDULER = {"CONFIG", "RM", "SETTINGS"}
"""Knobs that change nothing in what is submitted."""
REPLICAS = 3  # of each configuration, unless they would take longer than `WITHIN`
WITHIN = 3600.0  # real seconds


def _estimate(prepared: Prepared) -> float | None:
    """Expected real seconds of a run of the campaign at rest; None while the speed is not known."""
    length = prepared.length()
    return None if length is None else length.replay + STANDING


def _check_events(label: str, prepared: Prepared) -> None:
    """Check the events against a configuration, which may have other partitions than the first. Raises WrongUse."""
    try:
        _ = prepared.events
    except WrongUse as error:
        raise WrongUse(f"{error.message} (in {label})", error.parameter, error.value) from None


def replicas_of(folder: Path) -> int:
    """Replicas of each configuration of the campaign in `folder`; 0 if none has begun there."""
    return int(RunFolder(folder).experiment.get("inputs", {}).get("REPLICAS", 0))


def _replicas(run: str | None, prepared: Prepared, configurations: int) -> int:
    """Replicas of each configuration if REPLICAS is not given: those of the campaign if it has begun; otherwise as many as take an
    hour, at least one and at most `REPLICAS`; `REPLICAS` while the speed is not known. run: RUN
    """
    if run and (begun := replicas_of(runs.RESULTS / run)):
        return begun
    one = _estimate(prepared)
    return REPLICAS if one is None else max(1, min(REPLICAS, int(WITHIN / (one * configurations))))


@dataclass(frozen=True)
class Campaign:
    """The requested comparison, checked as far as possible without a cluster."""

    knobs: Knobs
    inventory: Path
    source: Source
    arms: Arms
    # Source of the jobs by label, of arms with a TRACE of their own.
    sources: Mapping[str, Source]
    # Prepared runs and their inputs, by label of the configuration.
    prepared: dict[str, Prepared]
    inputs: dict[str, str]
    folder: Path
    parts: list[Part]
    # Number of replicas of each configuration.
    replicas: int
    # Whether REPLICAS was not given.
    is_default: bool = False

    @classmethod
    def of(cls, knobs: Knobs, speed: Speed | None = None, arms: Arms | None = None) -> Campaign:
        """Check the knobs and prepare the workload.

        speed: that of the runs (clock_choice.py), by default SPEED. arms: by default the configurations of CONFIGS.
        Raises WrongUse.
        """
        names = names_of(knobs)
        inventory, shrinks = preflight.inventory(knobs.cluster), knobs.jobs.shrinks
        if len(shrinks) > 1:
            raise WrongUse("a sweep is not possible here; it may be a percentage", parameter="shrink")
        try:
            arms = arms or of_configurations(knobs)
            paths = {name: preflight.config(replace(knobs.scheduler, config=name)) for name in names}
        except WrongUse as error:
            raise WrongUse(error.message, "configs" if error.parameter == "config" else error.parameter, error.value) from None
        origin = source(knobs.workload, knobs.nodes.machine)
        first = {"CONFIG": names[0], "RM": knobs.scheduler.managers[0], **next(iter(arms.values()))}
        played = knobs.with_values({name: first[name] for name in ("CONFIG", "RM")}).at_speed(speed or knobs.clock.speed)
        base = Prepared.make(played, origin.trace, shrinks[0])
        machine = knobs.nodes.machine
        sources = {label: source(knobs.with_values(arm).workload, machine) for label, arm in arms.items() if "TRACE" in arm}
        prepared = {
            label: replace(base, knobs=own)
            if set(arms[label]) <= OF_SCHEDULER or own == played
            else Prepared.make(own, sources.get(label, origin).trace, shrinks[0])
            for label, own in ((label, played.with_values(arm)) for label, arm in arms.items())
        }
        for label, one in prepared.items():
            _check_events(label, one)
        is_default = knobs.campaign.replicas is None
        replicas = knobs.campaign.replicas or _replicas(knobs.output.run, base, len(arms))
        knobs = replace(knobs, campaign=replace(knobs.campaign, replicas=replicas))
        inputs = {"CONFIGS": " ".join(names), "REPLICAS": str(replicas)}
        for name, path in paths.items():
            common = runs.inputs(knobs, origin.trace.sha256, path)
            inputs[f"{name} content"] = common.pop("CONFIG content")
            inputs |= {key: value for key, value in common.items() if key != "CONFIG"}
        for label, arm in arms.items():
            files = {
                "EVENTS": run_events.digest(prepared[label].knobs.events) or NONE,
                "SLURM_CONF": runs.slurm_conf_digest(prepared[label].knobs),
                "TRACE": sources.get(label, origin).trace.sha256,
            }
            own = {**arm, **{name: digest for name, digest in files.items() if name in arm}}
            inputs |= {f"{label} {name}": text_of(value) for name, value in own.items() if name != "CONFIG"}
        folder = runs.RESULTS / runs.name_for(knobs.output.run, knobs.workload.trace, inputs, datetime.now())
        configs = {label: one.knobs.scheduler.config for label, one in prepared.items()}
        parts = cls._parts(knobs.workload.seed, replicas, configs, folder)
        return cls(knobs, inventory, origin, arms, sources, prepared, inputs, folder, parts, replicas, is_default)

    @staticmethod
    def _parts(seed: int, replicas: int, configs: Mapping[str, str], folder: Path) -> list[Part]:
        """The runs: one replica of each configuration, then the next replicas. configs: names of configurations by label."""
        parts = []
        for replica in range(1, replicas + 1):
            for label, name in configs.items():
                member = Member(label, replica, f"{label}-{replica}")
                on_head = f"{folder.name}.{member.folder}"
                if len(on_head) > LONGEST_NAME:
                    raise WrongUse(
                        f"{folder.name} is too long for runs like {on_head}; it may be {LONGEST_NAME} letters with them",
                        parameter="run",
                    )
                parts.append(Part(member, name, folder / member.folder, on_head, shift_of(seed, replica)))
        return parts

    def of_size(self, replicas: int, run: str) -> Campaign:
        """The same campaign with `replicas` runs of each configuration, in results/`run`.

        Raises WrongUse if `run` is too long for a name.
        """
        campaign = replace(self.knobs.campaign, replicas=replicas)
        knobs = replace(self.knobs, campaign=campaign, output=replace(self.knobs.output, run=run))
        folder, inputs = runs.RESULTS / run, {**self.inputs, "REPLICAS": str(replicas)}
        configs = {label: one.knobs.scheduler.config for label, one in self.prepared.items()}
        parts = self._parts(knobs.workload.seed, replicas, configs, folder)
        return replace(self, knobs=knobs, inputs=inputs, folder=folder, parts=parts, replicas=replicas)

    def with_settings(self, texts: Mapping[str, str], run: str, replicas: int = 1) -> Campaign:
        """A campaign of `replicas` runs with each of these SETTINGS, by label, in results/`run`.

        It is made of this one, which has one configuration. Raises WrongUse if `run` is too long for a name.
        """
        base = next(iter(self.prepared.values()))
        prepared = {label: replace(base, knobs=base.knobs.with_values({"SETTINGS": text})) for label, text in texts.items()}
        own = {f"{label} {name}" for label, arm in self.arms.items() for name in arm}
        inputs = {name: text for name, text in self.inputs.items() if name not in own}
        inputs |= {f"{label} SETTINGS": text for label, text in texts.items()}
        arms = {label: {"SETTINGS": text} for label, text in texts.items()}
        return replace(self, arms=arms, prepared=prepared, inputs=inputs).of_size(replicas, run)

    def extend(self) -> None:
        """Make the finished campaign of this name, which has fewer replicas, one of as many as this one.

        Its runs stay, and `run` plays the others. Interrupted before the end, it is as it was, but not finished.
        """
        begun = RunFolder(self.folder).experiment
        before = begun["inputs"] | {"REPLICAS": self.inputs["REPLICAS"]}
        (self.folder / STATUS_FILE).unlink(missing_ok=True)
        write_json(self.folder / EXPERIMENT_FILE, begun | {"inputs": before} | self._runs())

    @property
    def _with_most_nodes(self) -> Knobs:
        """The knobs with the machine of the arm that has the most nodes."""
        return replace(self.knobs, nodes=max((one.knobs.nodes for one in self.prepared.values()), key=lambda nodes: nodes.count))

    def played(self) -> list[Part]:
        """The runs in their order: each replica of all configurations in a random one, so that neither changes of the host nor the
        run before affect one configuration only. With more replicas the first ones have the same order.
        """
        seed = self.knobs.workload.seed
        rounds = [[part for part in self.parts if part.member.replica == 1 + k] for k in range(self.replicas)]
        for number, of_round in enumerate(rounds, 1):
            random.Random(f"order {seed} {number}").shuffle(of_round)
        return [part for of_round in rounds for part in of_round]

    # ---- the campaign ----

    def run(self, screen: Screen) -> Ending:
        """Run what is not finished, compare, and write status.json."""
        if runs.earlier(self.folder, self.inputs) is None:
            preflight.privileges(self.knobs.cluster)
            own = [*(part.name() for part in self.parts), runs.calibration_of(self.folder.name)]
            cluster = self.knobs.cluster
            with InstanceUse(cluster, self.folder.name, own, [self.folder], screen, first_run_host(cluster)) as use:
                # Another make may have finished it while this one waited.
                if runs.earlier(self.folder, self.inputs) is None and (ending := self._run_rest(use, screen)) is not None:
                    return ending
        else:
            screen.say(f"results/{self.folder.name} is finished: nothing is run again")
        members = [part.member for part in self.parts]
        return conclude(self.folder, members, screen, float(self.knobs.campaign.margin))

    def _run_rest(self, use: InstanceUse, screen: Screen) -> Ending | None:
        """Run what is not finished. Returns the ending of a run that did not finish, or None."""
        use.when_free(self._check)
        self._announce(screen)
        if not (self.folder / EXPERIMENT_FILE).exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / EXPERIMENT_FILE, self._description())
            runs.keep_knobs(self.folder, self.knobs)
        with runs.only_one(self.folder):
            (self.folder / STATUS_FILE).unlink(missing_ok=True)
            ending = self._play_all(use, screen)
            if ending is not None:
                self._give_up(ending)
        return ending

    def _check(self) -> None:
        """Checks before anything is written."""
        knobs, cluster = self.knobs, self.knobs.cluster
        at_work = preflight.running(cluster)
        own = {self.folder.name, *(part.name() for part in self.parts)}
        preflight.nothing_disturbed(knobs, at_work if at_work in own else self.folder.name)
        preflight.has_room(self._with_most_nodes)
        preflight.no_leftover(cluster, self.folder)
        for part in self.parts:
            preflight.no_leftover(cluster, part.folder, part.name())

    def _description(self) -> dict[str, Any]:
        what = runs.describe(self.knobs, self.inputs, self.source.description)
        return {"run": self.folder.name, **what, **self._runs()}

    def _runs(self) -> dict[str, Any]:
        """The runs as experiment.json has them."""
        return {
            "comparison": [vars(part.member) for part in self.parts],
            "order": [part.folder.name for part in self.played()],
            "shifts": {part.folder.name: part.shift for part in self.parts},
        }

    def _left(self) -> list[Part]:
        """The runs that are not finished, in their order."""
        return [part for part in self.played() if part.ending() is None]

    def takes(self, one: float | None = None) -> float | None:
        """Expected real seconds of the runs that are not finished; None while the speed is not known.

        one: seconds of one run, by default as estimated. Raises WrongUse for an AT_ONCE that is not possible.
        """
        base = next(iter(self.prepared.values()))
        left = sum(part.ending() is None for part in self.parts)
        one = _estimate(base) if one is None else one
        rounds = -(-left // runs_at_once(self._with_most_nodes, base.knobs.clock.speed, left))
        return None if one is None else one * rounds

    def _announce(self, screen: Screen) -> None:
        base = next(iter(self.prepared.values()))
        for line in [*log_findings.severe(self.knobs, self.source.trace), *remarks(base)]:
            screen.say(line)
        screen.say(f"each run: {base.announcement()}")
        left, speed = len(self._left()), base.knobs.clock.speed
        done, one, count = len(self.parts) - left, _estimate(base), runs_at_once(self._with_most_nodes, speed, left)
        rounds = -(-left // count)
        length = base.length()
        takes = run_length.in_words(AUTO, base.estimate() * rounds, None) if length is None else length.times(rounds).in_words()
        each = ("" if one is None else f" of about {about(one)}") + (f", {count} at once" if count > 1 else "")
        configurations = ", ".join(dict.fromkeys(part.member.label for part in self.parts))
        all_of_it = f", {done} of them finished; the rest: {takes}" if done else f": {takes}"
        screen.say(f"comparison of {configurations}: {len(self.parts)} runs{each}{all_of_it}")
        if (note := note_on(self.knobs.cluster, speed, count)) is not None:
            screen.say(note)
        if self.is_default:
            why = "as many as take an hour by this estimate" if self.replicas < REPLICAS else "the default"
            screen.say(f"REPLICAS={self.replicas} of each, {why}; the runs of a round are in random order")
        if self.replicas == 1:
            screen.say("one run of each does not show the noise: no difference will be significant. REPLICAS=3 or more show it")

    def _give_up(self, ending: Ending) -> None:
        """Write the ending of an unfinished campaign. If a role refused an input before any run began, the folder is removed."""
        if ending.word == "wrong use" and not any(part.folder.exists() for part in self.parts):
            shutil.rmtree(self.folder)
        else:
            ending.store(self.folder)

    def _play_all(self, use: InstanceUse, screen: Screen) -> Ending | None:
        """Run what is not finished. Returns the ending of a run that did not finish, or None."""
        try:
            speed = self._speed(use, screen)
            prepared = {name: replace(one, knobs=one.knobs.at_speed(speed)) for name, one in self.prepared.items()}
            return self.play_left(prepared, speed, use, screen)
        except (WrongUse, Failed, Interrupted) as error:
            return self._ending_of(error, self.folder.name, self.knobs.cluster)

    def play_left(
        self, prepared: Mapping[str, Prepared], speed: Speed, use: InstanceUse, screen: Screen, *, keeps: bool = False
    ) -> Ending | None:
        """Run what is not finished. Returns the ending of a run that did not finish, or None.

        prepared: by label, with the speed that was chosen. keeps: as for RunsLeft. Raises Interrupted.
        """
        parts, count = self.played(), len(self.parts)
        titles = {part: f"run {number} of {count}, {part.folder.name}" for number, part in enumerate(parts, 1)}
        left = self._left()
        took: dict[str, float] = {}
        unfinished: list[Ending] = []

        def estimate(part: Part) -> float:
            label = part.member.label
            return took.get(label) or _estimate(prepared[label]) or 0.0

        def rest() -> str:
            return about(sum(map(estimate, left)) / at_once)

        def play(part: Part, lane: Lane) -> bool:
            lane.screen.tell(f"about {about(estimate(part))}, all that is left about {rest()}")
            label = part.member.label
            while part.ending() is None:
                began = time.monotonic()
                ending = self._play(part, prepared[label], lane)
                took[label] = time.monotonic() - began
                lane.screen.tell(f"{ending.line} ({about(took[label])})")
                if not ending.is_final:
                    unfinished.append(Ending(ending.word, f"{part.folder.name}: {ending.message}"))
                    return False
            left.remove(part)
            return True

        for part in parts:
            if (ending := part.ending()) is not None:
                screen.say(f"{titles[part]}: {ending.word}, finished before")
        campaign = RunsLeft(
            self._with_most_nodes,
            self.inventory,
            speed,
            self.folder,
            use,
            on_head=[part.name() for part in self.parts],
            left=tuple(left),
            play=play,
            which=lambda part: titles[part],
            name=Part.name,
            folder_of=lambda part: part.folder,
            home=lambda part: part.home(self.knobs.cluster),
            arm=lambda part: part.member.label,
            foot=lambda: f"{count - len(left)} of {count} runs finished, about {rest()} left",
            keeps=keeps,
        )
        at_once = campaign.at_once()
        is_complete = campaign.run(places_of([part.folder for part in parts]), screen)
        if unfinished or is_complete:
            return unfinished[0] if unfinished else None
        raise Interrupted

    def _speed(self, use: InstanceUse, screen: Screen) -> Speed:
        """SPEED. For `auto` one speed is chosen for all runs, with a configuration that backfills if there is one, because its
        cycles may limit the speed."""
        configs = {name: configuration.of(one.knobs.scheduler) for name, one in self.prepared.items()}
        backfills = (name for name, config in configs.items() if config.backfills)
        prepared = self.prepared[next(backfills, next(iter(configs)))]

        def replay(run: str, speed: Speed, results: Path, more: Mapping[str, Any]) -> None:
            variables = {**replay_variables(prepared, speed, run, results), **more, **CLEAN_STATE}
            use.play("experiment", variables, self.inventory, RunScreen(screen, "calibration"), self.folder / ANSIBLE_LOG_FILE)

        return speed_for(prepared, self.folder, replay, screen)

    def _inputs_of(self, part: Part) -> dict[str, str]:
        """The inputs of one run: those of the campaign, with the knobs of its arm."""
        of_arms = {f"{label} {name}" for label, arm in self.arms.items() for name in arm}
        inputs = {name: text for name, text in self.inputs.items() if name not in {"CONFIGS", "REPLICAS", *of_arms}}
        label = part.member.label
        own = {name: self.inputs[f"{label} {name}"] for name in self.arms[label] if name != "CONFIG"}
        return {"CONFIG": part.config, **inputs, **own}

    def _play(self, part: Part, prepared: Prepared, lane: Lane) -> Ending:
        """Start or continue one run, and write its status.json."""
        is_new = not (part.folder / EXPERIMENT_FILE).exists()
        dues, speed = [due + part.shift for due in prepared.dues], prepared.knobs.clock.speed
        prepared = replace(prepared, dues=dues, replica=part.member.replica)
        if is_new:
            origin = self.sources.get(part.member.label, self.source)
            what = runs.describe(prepared.knobs, self._inputs_of(part), origin.description)
            prepared.write(part.folder, {"run": part.name(), **what, "shift": part.shift, **lane.place()}, part.name())
        else:
            if part.is_spoiled():
                part.begin_anew()
                lane.screen.say(
                    f"{part.folder.name} was interrupted for too long: it is repeated, attempt {part.attempt()} of {ATTEMPTS}"
                )
            elif not preflight.has_journal(lane.cluster, part.name()):
                lane.screen.say(f"{part.folder.name} begins again: its cluster is gone")
            runs.set_place(part.folder, lane.place())
            prepared.write_again(part.folder, part.name())
        (part.folder / STATUS_FILE).unlink(missing_ok=True)
        try:
            manager = prepared.knobs.scheduler.managers[0]
            slurm = releases.commands_of(prepared.knobs.scheduler) if "SLURM_SOURCE" in self.arms[part.member.label] else None
            lane.clear_for(manager, slurm, self.inventory, part.folder / ANSIBLE_LOG_FILE)
            known = launch_costs.variables(self.folder, manager, lane.host)
            variables = {**replay_variables(prepared, speed, part.name(), part.folder), **known, **CLEAN_STATE}
            lane.play("experiment", variables, self.inventory, part.folder / ANSIBLE_LOG_FILE)
            launch_costs.keep(self.folder, part.folder, manager, lane.host)
            ending = ending_of(part.folder)
        except (WrongUse, Failed, Interrupted) as error:
            ending = self._ending_of(error, part.name(), lane.cluster)
        if is_new and ending.word == "wrong use":
            shutil.rmtree(part.folder)
            return ending
        runs.complete(part.folder)
        ending.store(part.folder)
        if ending.is_final:
            report.write_meanwhile(part.folder)
        return ending

    def _ending_of(self, error: Exception, run: str, cluster: ClusterKnobs) -> Ending:
        if isinstance(error, WrongUse):
            return Ending("wrong use", user_message(error))
        if isinstance(error, Failed):
            return Ending("failed", str(error))
        goes_on = f"the same command (with RUN={self.folder.name})"
        if preflight.running(cluster) != run:
            return Ending("failed", f"interrupted; {goes_on} goes on")
        return Ending("failed", f"interrupted; the replay itself goes on: {goes_on} follows it, make teardown ends it")

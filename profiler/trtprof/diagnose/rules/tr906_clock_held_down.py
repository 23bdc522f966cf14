"""Something held the clock of the GPU down while it was measured.

What:
    The driver gave a reason for a lower clock during a good part of the measurement, and the SMs ran well
    under the boost clock of the datasheet.

Why:
    Power at the limit of the board, temperature, a power supply that cannot keep up, or a clock that somebody
    set: the application clocks, a group of GPUs that boost together. Arithmetic and the L2 are slower by as
    much. What is attainable is scaled to that clock already, what is ideal is not: the difference is in the
    ledger's row of ceilings.

Try:
    Power: what moves less data or computes in fewer bits takes less of it; `nvidia-smi -q -d POWER` shows
    which limit the board allows. Temperature: air, fans, dust, and time to cool down between runs. A clock
    that was set: `nvidia-smi --reset-gpu-clocks`. Where it stays, take the clock for given and lock it
    (`nvidia-smi --lock-gpu-clocks=MHZ`), so that runs can be compared; trtprof changes no clocks.
"""

from __future__ import annotations

from trtprof.base.records import ClockSummary
from trtprof.base.units import format_percent
from trtprof.diagnose import Case, Claim, doubt, run_rule

_IDLE = "idle"  # NVML's reason of a GPU that has nothing to do: it holds nothing down

_SET = "see who set it, and reset it where nobody needs it (nvidia-smi --reset-gpu-clocks, --reset-applications-clocks)"
_HOT = "let the GPU cool down between runs, and look after its air flow and fans (nvidia-smi -q -d TEMPERATURE)"
_SUPPLY = "look after the power supply of the machine and its cables to the board (nvidia-smi -q -d PERFORMANCE)"
REMEDIES = {
    "power cap": (
        "take less power: fewer bits, less data moved; a higher limit, where the board allows one, is set with "
        "nvidia-smi --power-limit"
    ),
    "power brake": _SUPPLY,
    "hardware slowdown": _SUPPLY,
    "temperature, slowed by software": _HOT,
    "temperature, slowed by hardware": _HOT,
    "application clocks are set": _SET,
    "sync boost with other GPUs": _SET,
    "display clocks": _SET,
}
"""What to try by NVML's reason, in the words of `nvml_session.CLOCK_EVENTS`."""


@run_rule("TR906", "GPU clock held down", order=0, thresholds=("clock_moved", "clock_held"))
def judge(case: Case) -> Claim | str:
    """One finding with every reason that held long enough; silent where the driver tells none, or the clock is high."""
    least = case.thresholds.clock_held
    most: dict[str, float] = {}
    told = False
    for window, when in ((case.clocks, "while the latency was measured"), (case.clocks_profiled, "while profiled")):
        if window is None or window.reasons is None:
            continue
        told = True
        reasons = {reason: share for reason, share in window.reasons.items() if reason != _IDLE}
        most.update({reason: max(share, most.get(reason, 0.0)) for reason, share in reasons.items()})
        held = {reason: share for reason, share in reasons.items() if share >= least}
        if held and _is_low(window, case):
            return doubt(
                f"{_facts(window, case)}, {when}; held down by {_reasons(held)}",
                REMEDIES.get(max(held, key=lambda reason: held[reason]), "nvidia-smi -q -d PERFORMANCE says more"),
                brief=f"GPU clock held down by {max(held, key=lambda reason: held[reason])}",
            )
    if not told:
        return "the rule is about the whole run, in which the driver told of nothing that held a clock down"
    return (
        f"the rule is about the whole run: nothing held the clock down for {format_percent(least)} of the time while "
        f"it was more than {format_percent(case.thresholds.clock_moved)} under its rating"
        + (f"; held by {_reasons(most)}" if most else "")
    )


def _is_low(window: ClockSummary, case: Case) -> bool:
    """Whether the clock was well under the boost clock, or one of them is not known."""
    clock = window.sm_clock_mhz
    return clock is None or not case.rated_mhz or clock.median < case.rated_mhz * (1 - case.thresholds.clock_moved)


def _facts(window: ClockSummary, case: Case) -> str:
    clock, power, temperature = window.sm_clock_mhz, window.power_w, window.temperature_c
    facts = []
    if clock is not None:
        rated = (
            f", {format_percent(clock.median / case.rated_mhz)} of {case.rated_mhz:,.0f} MHz" if case.rated_mhz else ""
        )
        facts.append(f"SMs at {clock.median:,.0f} MHz{rated}")
    if power is not None:
        facts.append(f"{power.median:.0f} W")
    if temperature is not None:
        facts.append(f"{temperature.median:.0f} C")
    return ", ".join([*facts, f"samples: {window.samples}"])


def _reasons(held: dict[str, float]) -> str:
    return ", ".join(f"{reason} ({format_percent(share)} of the time)" for reason, share in held.items())

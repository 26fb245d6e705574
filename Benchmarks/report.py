"""Formats the measurements of run.py as Markdown tables.

    python report.py RESULTS.json
"""

import json
import sys
from pathlib import Path


def tables(result):
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    commit = f"commit {result['commit']}"
    if result["has_uncommitted_changes"]:
        commit += " with uncommitted changes"
    if result["binary_predates_sources"]:
        commit += " (the binary is older than the sources)"
    lines = [
        f"{result['date']}, {commit}, "
        f"{result['cores']} cores of {result['processor']}, {result['system']}; {versions}. "
        f"Median of {result['rounds']}; in parentheses the peer's value over Takeset's with as many threads.",
        "",
        "| takes | converter | wall s | frames/s | CPU s | peak MB | output MB |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for workload in result["workloads"]:
        lines += [row(workload, contender) for contender in workload["median"] if not contender.startswith("limit")]
    lines += limit_table(result["workloads"], result["cores"])
    if "memory" in result:
        lines += memory_table(result["memory"])
    return "\n".join(lines)


def row(workload, contender):
    values = workload["median"][contender]
    takeset = workload["median"].get(workload["peers"].get(contender))

    def cell(key, digits, unit=1):
        number = f"{values[key] / unit:.{digits}f}"
        return f"{number} ({values[key] / takeset[key]:.2f}x)" if takeset else number

    return (
        f"| {workload['title']}, {workload['frames']} frames | {contender} | {cell('wall_seconds', 2)} "
        f"| {values['frames_per_second']:.0f} | {cell('cpu_seconds', 2)} "
        f"| {cell('peak_rss_bytes', 0, 1e6)} | {cell('output_bytes', 1, 1e6)} |")


def limit_table(workloads, cores):
    """Table of the minimal cost as a fraction of Takeset's CPU time, and of the gains from more threads."""
    lines = ["", "| takes | threads | takeset CPU s | codec limit | floor | takeset gains | floor gains |", "|---|--:|--:|--:|--:|--:|--:|"]
    for workload in workloads:
        median = workload["median"]
        for jobs in sorted({1, cores}) if "limit --jobs 1" in median else []:
            takeset, limit = (median[f"{program} --jobs {jobs}"] for program in ("takeset", "limit"))
            codec, floor = (limit[f"{name}_cpu_seconds"] / takeset["cpu_seconds"] for name in ("codec", "floor"))
            gains = [
                f"{median[f'{program} --jobs 1'][key] / median[f'{program} --jobs {jobs}'][key]:.2f}x" if jobs > 1 else ""
                for program, key in [("takeset", "wall_seconds"), ("limit", "floor_wall_seconds")]
            ]
            lines.append(
                f"| {workload['title']} | {jobs} | {takeset['cpu_seconds']:.2f} | {codec:.2f} | {floor:.2f} | {gains[0]} | {gains[1]} |")
    return lines if len(lines) > 3 else []


def memory_table(memory):
    lines = ["", f"| takeset --jobs {memory['jobs']}, v1 480x360 | peak MB | wall s |", "|---|--:|--:|"]
    for session in memory["sessions"]:
        lines.append(f"| {session['frames']} frames | {session['peak_rss_bytes'] / 1e6:.1f} | {session['wall_seconds']:.2f} |")
    return [*lines, f"| ratio | {memory['ratio']:.2f} | |"]


if __name__ == "__main__":
    print(tables(json.loads(Path(sys.argv[1]).read_text())))

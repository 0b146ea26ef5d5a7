"""All models by name. Apart from __init__ because numpy and scipy take a moment to load."""

from __future__ import annotations

from mirage.workloads.models import feitelson96, lomonosov, lublin, raijin, susu

CATALOGUE = {
    "raijin": raijin.MODEL,
    "lublin": lublin.MODEL,
    "lublin-batch": lublin.BATCH_MODEL,
    "lublin-interactive": lublin.INTERACTIVE_MODEL,
    "feitelson96": feitelson96.MODEL,
    "lomonosov": lomonosov.MODEL,
    "susu": susu.MODEL,
}

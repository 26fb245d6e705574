"""The documents of the project."""

import re

from command import ROOT


def blocks(document, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.S)

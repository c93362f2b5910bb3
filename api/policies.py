"""Settings that make a node acknowledge like other systems.

async with triack.open("plant-a", settings=triack.policies.SOLACE) as node: ...
async with triack.open("plant-b", settings=triack.policies.solace(window=255)) as node: ...
"""

from triack.node.handles.policies import (
    AMPS,
    DEFAULT,
    HORNETQ,
    MSMQ,
    PRESETS,
    SOLACE,
    WSO2,
    Value,
    amps,
    hornetq,
    msmq,
    solace,
    values,
    wso2,
)

__all__ = [
    "AMPS",
    "DEFAULT",
    "HORNETQ",
    "MSMQ",
    "PRESETS",
    "SOLACE",
    "WSO2",
    "Value",
    "amps",
    "hornetq",
    "msmq",
    "solace",
    "values",
    "wso2",
]

"""2 / PI to 1201 fractional bits, the constant of V_TRIG_PREOP_F64 (``1201'B(2.0 / PI)``)."""

from __future__ import annotations

#: floor(2 / PI * 2**1201)
TWO_OVER_PI = int(
    "145f306dc9c882a53f84eafa3ea69bb81b6c52b3278872083fca2c757bd778ac36e48dc74849ba5c00c925dd413a32439fc3bd639625"
    "34e7dd1046bea5d768909d338e04d68befc827323ac7306a673e93908bf177bf250763ff12fffbc0b301fde5e2316b414da3eda6cfd9"
    "e4f96136e9e8c7ecd3cbfd45aea4f758fd7cbe2f67a0e73ef14a525d4d7f6bf623f1aba10ac06608df8f6",
    16,
)

"""Makes a log of past decisions, as an organisation could have one: make_log.py FILE.

An app reminded people by a coin, half of the time. In truth a reminder helps in the evening and annoys in the morning.
"""

import csv
import random
import sys

random.seed(1)
with open(sys.argv[1], "w", newline="", encoding="utf-8") as out:
    rows = csv.writer(out)
    rows.writerow(["day", "evening", "offer", "chance", "exercised"])
    for row in range(4000):
        evening, offer = random.random() < 0.5, random.choice(["none", "reminder"])
        works = 0.5 if offer == "none" else 0.8 if evening else 0.2
        rows.writerow([1 + row // 100, str(evening).lower(), offer, 0.5, int(random.random() < works)])

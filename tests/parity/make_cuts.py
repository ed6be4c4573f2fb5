"""Make `fixtures/cuts.mp4` and `fixtures/cuts.json`: a clip with known cuts, and the scenes that PySceneDetect finds.

    pip install scenedetect opencv-python-headless
    python tests/parity/make_cuts.py

Made with scenedetect 0.7.2. The clip has 25 frames a second: shots that move, a flash, a burst of short shots, a fade, two shots of
almost the same colors. `cuts` of the JSON are first frames of scenes, for some thresholds and shortest lengths, of this clip and of
the demo clips.
"""

import json
from pathlib import Path

import cv2
import numpy as np
from scenedetect import ContentDetector, SceneManager, open_video

ROOT = Path(__file__).parents[2]
OUT = Path(__file__).parent / "fixtures"
CLIPS = ["tests/parity/fixtures/cuts.mp4", "assets/demo/clips/three-shots.mp4", "assets/demo/clips/wide-two-shots.mp4"]
PARAMETERS = [(27.0, 0.6), (27.0, 1.2), (12.0, 0.6), (27.0, 0.1), (8.0, 0.7), (60.0, 0.6)]
WIDTH, HEIGHT = 128, 96


def shot(frames, low, high, speed):
    """A gradient between two colors with a square that moves."""
    share = np.linspace(0, 1, WIDTH)[None, :, None]
    back = np.repeat((1 - share) * low + share * high, HEIGHT, axis=0)
    for i in range(frames):
        picture = back.copy()
        x = (10 + i * speed) % (WIDTH - 24)
        picture[30:54, x : x + 24] = 255 - np.array(high)
        yield picture


def clip():
    yield from shot(75, (20, 20, 120), (60, 160, 220), 1)
    yield from shot(60, (120, 60, 10), (200, 90, 160), 2)
    yield from (np.full((HEIGHT, WIDTH, 3), 255.0) for _ in range(2))  # a flash
    yield from shot(60, (120, 60, 10), (200, 90, 160), 1)
    for k in range(8):  # a burst
        yield from shot(6, (30 * k, 255 - 30 * k, 40), (255 - 20 * k, 30, 30 * k), 3)
    yield from shot(70, (10, 10, 10), (90, 200, 90), 1)
    for i, picture in enumerate(shot(50, (10, 10, 10), (90, 200, 90), 1)):  # a fade; in black, the hue would be noise
        yield picture * (1 - i / 70)
    yield from shot(50, (90, 80, 70), (120, 130, 140), 1)
    yield from shot(40, (100, 90, 80), (130, 140, 150), 1)  # almost the same
    yield from shot(60, (230, 30, 30), (30, 30, 230), 1)


def cuts(path, threshold, shortest):
    video = open_video(str(path))
    manager = SceneManager()
    manager.add_detector(ContentDetector(threshold=threshold, min_scene_len=shortest))
    manager.detect_scenes(video)
    return [scene[0].frame_num for scene in manager.get_scene_list()[1:]]


def main():
    writer = cv2.VideoWriter(str(OUT / "cuts.mp4"), cv2.VideoWriter_fourcc(*"mp4v"), 25.0, (WIDTH, HEIGHT))
    for picture in clip():
        writer.write(np.clip(picture, 0, 255).astype(np.uint8))
    writer.release()
    found = [
        {"clip": name, "threshold": threshold, "shortest_s": shortest, "cuts": cuts(ROOT / name, threshold, shortest)}
        for name in CLIPS
        for threshold, shortest in PARAMETERS
    ]
    lines = ",\n".join(json.dumps(row) for row in found)
    (OUT / "cuts.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()

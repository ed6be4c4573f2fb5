"""Makes small videos in many containers and codecs, and writes when each of their frames is shown, as PyAV decodes them.

Needs FFmpeg's command line tool (5.1), and PyAV 18.1 with NumPy and Pillow 12. PyAV's FFmpeg libraries (8.1) are another version:

    python tests/it/video/make_containers.py tests/it/video/containers

Every frame shows its number modulo 256 as eight stripes, white where the bit is set, the lowest one at the left. Times are seconds
from the beginning of the file, which is where the first of its streams begins. Where time stamps restart, PyAV gives them as they are
in the file; the times on one clock follow from how the file was made.
"""

import json
import pathlib
import subprocess
import sys

import av
import numpy as np
from PIL import Image

OUT = pathlib.Path(sys.argv[1])
WIDTH, HEIGHT, FRAMES, FPS = 64, 48, 30, 25
X264 = "-c:v libx264 -preset veryfast -crf 24 -g 12 -bf 2 -sc_threshold 0"
SOUND = "-f lavfi -i sine=frequency=300:sample_rate=8000:duration={}"


def numbered(frames, width=WIDTH, height=HEIGHT):
    columns = np.arange(width) * 8 // width
    rows = [np.where(n % 256 >> columns & 1, 220, 40).astype(np.uint8) for n in range(frames)]
    return b"".join(np.tile(row, (height, 1)).tobytes() for row in rows)


def ffmpeg(name, options, frames=FRAMES, fps=FPS, size=(WIDTH, HEIGHT), inputs=""):
    path = OUT / name
    command = f"ffmpeg -v error -y -f rawvideo -pix_fmt gray -s {size[0]}x{size[1]} -r {fps} -i - {inputs} {options}"
    subprocess.run([*command.split(), str(path)], input=numbered(frames, *size), check=True)
    return path


def number(frame):
    gray = frame.to_ndarray(format="gray")
    row = gray[gray.shape[0] // 2]
    return sum(1 << bit for bit in range(8) if row[(2 * bit + 1) * len(row) // 16] > 130)


def decoded(path):
    with av.open(str(path)) as container:
        stamps = [(p.pts if p.pts is not None else p.dts, p.time_base) for p in container.demux()]
        # What comes before 0 only primes a decoder of sound, and leading pictures of HEVC do not count.
        start = max(0, min(float(stamp * base) for stamp, base in stamps if stamp is not None))
        if container.streams.video[0].name == "hevc":
            start = container.start_time / av.time_base
    with av.open(str(path)) as container:
        frames = [(frame.time, number(frame)) for frame in container.decode(video=0)]
    start = min(start, frames[0][0])
    return [round(time - start, 6) for time, _ in frames], [n for _, n in frames]


def join(name, parts):
    """Parts of FRAMES frames, one after another in one file."""
    path = OUT / name
    first = decoded(parts[0])[0][0]
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    numbers = decoded(path)[1]
    assert numbers == [n for _ in parts for n in range(FRAMES)], (name, numbers)
    for part in parts:
        part.unlink(missing_ok=True)
    return path, [first + i / FPS for i in range(FRAMES * len(parts))], numbers


OUT.mkdir(exist_ok=True)
for old in OUT.iterdir():
    old.unlink()
entries = []


def add(path, times=None, numbers=None, notes=0):
    if times is None:
        times, numbers = decoded(path)
    entries.append({"file": path.name, "notes": notes, "times": times, "numbers": numbers})


def plain(name, options, **how):
    add(ffmpeg(name, options, **how))


yuv = "-pix_fmt yuv420p"
plain("h264.mp4", f"{X264} {yuv}")
plain("no-edit-list.mp4", f"{X264} {yuv} -use_editlist 0")
plain("fragmented.mp4", f"{X264} {yuv} -movflags frag_keyframe+empty_moov+default_base_moof")
plain("negative-offsets.mp4", f"{X264} {yuv} -movflags negative_cts_offsets")
plain("h264.mov", f"{X264} {yuv}")
plain("h264.mkv", f"{X264} {yuv}")
plain("open-groups.mkv", f"{X264} {yuv} -x264-params open-gop=1:b-pyramid=normal")
plain("hevc.mp4", f"-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=12 {yuv}")
plain("hevc.mkv", f"-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=12 {yuv}")
plain("vp8.webm", f"-c:v libvpx -auto-alt-ref 1 -lag-in-frames 10 -g 30 -b:v 60k -quality good -cpu-used 0 {yuv}", frames=90)
plain("vp9.webm", f"-c:v libvpx-vp9 -auto-alt-ref 1 -lag-in-frames 10 -g 30 -b:v 60k {yuv}")
plain("av1.webm", f"-c:v libaom-av1 -cpu-used 8 -g 12 -b:v 60k {yuv}")
plain("av1.mp4", f"-c:v libaom-av1 -cpu-used 8 -g 12 -b:v 60k {yuv}")
plain("h264.ts", f"{X264} {yuv}")
plain("hevc.ts", f"-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=12 {yuv}")
plain("mpeg2.ts", f"-c:v mpeg2video -g 12 -bf 2 {yuv}")
plain("h264.mts", f"{X264} {yuv} -f mpegts -mpegts_m2ts_mode 1")
plain("wrapping.ts", f"{X264} {yuv} -output_ts_offset 95442.2")
plain("mpeg4.avi", f"-c:v mpeg4 -g 12 -bf 2 {yuv}")
plain("mjpeg.avi", "-c:v mjpeg -q:v 8 -pix_fmt yuvj420p")
plain("h264.flv", f"{X264} {yuv}")
plain("flv1.flv", f"-c:v flv1 -g 12 {yuv}")
plain("h263.3gp", f"-c:v h263 -g 12 {yuv}", size=(128, 96))
plain("mpeg4.3gp", f"-c:v mpeg4 -g 12 {yuv}")
plain("frames.gif", "")
plain("frames.apng", "-f apng -plays 0")
plain("mpeg1.mpg", f"-c:v mpeg1video -g 12 -bf 2 {yuv}")
plain("mpeg2.vob", f"-c:v mpeg2video -g 12 -bf 2 {yuv} -f vob")
plain("wmv2.wmv", f"-c:v wmv2 -g 12 {yuv}")
plain("theora.ogv", f"-c:v libtheora -g 12 -q:v 5 {yuv}")
plain("interlaced-h264.mkv", f"{X264} {yuv} -flags +ildct+ilme -x264-params interlaced=1")
plain("interlaced-mpeg2.ts", f"-c:v mpeg2video -g 12 -flags +ildct+ilme {yuv}")
plain("10-bit.mkv", f"{X264} -pix_fmt yuv420p10le")
plain("4-2-2.mp4", f"{X264} -pix_fmt yuv422p")
plain("4-4-4.mp4", f"{X264} -pix_fmt yuv444p")
plain("odd-size.mp4", f"{X264} -pix_fmt yuv444p", size=(67, 51))
plain("one-frame.mp4", f"{X264} {yuv}", frames=1)
plain("ten-seconds-a-frame.mp4", f"{X264} {yuv}", frames=6, fps="1/10")
plain("ten-seconds-a-frame.ts", f"{X264} {yuv}", frames=6, fps="1/10")
plain("three-hours.mkv", f"{X264} {yuv}", frames=180, fps="1/60")
variable = "-vf setpts='(N*0.04+0.015*mod(N\\,3)+gt(N\\,20)*(N-20)*0.5)/TB' -fps_mode passthrough"
for name in ["variable.mp4", "variable.mkv", "variable.ts"]:
    plain(name, f"{variable} -enc_time_base 1/1000 {X264} {yuv}")
later = "-vf setpts=PTS+1.5/TB -fps_mode passthrough -map 0 -map 1"
late = dict(inputs=SOUND.format(1))
plain("late.mkv", f"{later} {X264} {yuv} -c:a libopus -b:a 8k", **late)
plain("late.mp4", f"{later} {X264} {yuv} -c:a aac", **late)
plain("late.ts", f"{later} {X264} {yuv} -c:a mp2 -ar 16000", **late)
plain("late.flv", f"{later} {X264} {yuv} -c:a aac -ar 22050", **late)
for curve, name in [("smpte2084", "pq.mkv"), ("arib-std-b67", "hlg.mkv")]:
    colors = f"colorprim=bt2020:transfer={curve}:colormatrix=bt2020nc"
    path = ffmpeg(name, f"-c:v libx265 -preset ultrafast -x265-params log-level=none:{colors} -pix_fmt yuv420p10le")
    add(path, notes=1)

# Pillow writes and reads animated WebP.
pixels = np.frombuffer(numbered(FRAMES), np.uint8).reshape(FRAMES, HEIGHT, WIDTH)
pictures = [Image.fromarray(frame).convert("RGB") for frame in pixels]
times = [40 + 20 * (n % 3) for n in range(FRAMES)]
path = OUT / "frames.webp"
pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=times, lossless=True)
add(path, [sum(times[:n]) / 1000 for n in range(FRAMES)], list(range(FRAMES)))

# Cut without encoding again: an edit list hides the frames from the keyframe on.
whole = ffmpeg("whole.mp4", f"{X264} {yuv}")
for name in ["cut.mp4", "cut.mov"]:
    subprocess.run(f"ffmpeg -v error -y -ss 0.7 -i {whole} -c copy {OUT / name}".split(), check=True)
    add(OUT / name)
whole.unlink()

# A recording that begins within a group of pictures.
hevc = f"-c:v libx265 -preset ultrafast -bf 3 -x265-params log-level=none:keyint=12:open-gop=1:bframes=3 {yuv}"
for name, options in {
    "begins-late.ts": f"{X264} {yuv}",
    "begins-late-open.ts": f"{X264} {yuv} -x264-params open-gop=1:b-pyramid=normal",
    "begins-late-hevc.ts": hevc,
    "begins-late-mpeg2.ts": f"-c:v mpeg2video -g 12 -bf 2 {yuv}",
}.items():
    path = ffmpeg(name, options)
    data = path.read_bytes()
    path.write_bytes(data[:376] + data[188 * (len(data) // 188 // 3) :])
    add(path)

part = lambda name, offset: ffmpeg(name, f"{X264} {yuv} -output_ts_offset {offset}")
add(*join("restarts.ts", [part("a.ts", 0), part("b.ts", 0)]), notes=1)
add(*join("overlaps.ts", [part("a.ts", 0), part("b.ts", 0.013)]), notes=1)
add(*join("goes-back.ts", [part("a.ts", 3000), part("b.ts", 7)]), notes=1)
add(*join("jumps.ts", [part("a.ts", 0), part("b.ts", 5000)]), notes=1)
add(*join("three-parts.ts", [part("a.ts", 900), part("b.ts", 20), part("c.ts", 0)]), notes=1)
sound = lambda name, offset: ffmpeg(name, f"{X264} {yuv} -c:a mp2 -b:a 32k -ar 16000 -output_ts_offset {offset}", inputs=SOUND.format(1.2))
add(*join("restarts-with-sound.ts", [sound("a.ts", 30), sound("b.ts", 4)]), notes=1)
program = lambda name: ffmpeg(name, f"-c:v mpeg2video -g 12 -bf 2 {yuv}")
add(*join("restarts.mpg", [program("a.mpg"), program("b.mpg")]), notes=1)

lines = ",\n".join(json.dumps(entry) for entry in entries)
(OUT / "times.json").write_text(f"[\n{lines}\n]\n")
print(sum(file.stat().st_size for file in OUT.iterdir()), "bytes")

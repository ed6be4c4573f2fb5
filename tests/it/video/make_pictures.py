"""Makes small pictures and videos in every orientation, with transparency, and with pixels that are not square, and writes how a viewer
shows them.

Needs FFmpeg's command line tool (5.1), Pillow 12 and NumPy:

    python tests/it/video/make_pictures.py tests/it/video/pictures

Every picture has four quarters: red, green, blue and yellow, row by row. In those with an alpha channel, their opacity is 0, 64, 128
and 255 of 255. `pictures.json` has size and colors of the quarters as shown:
upright as Pillow's `exif_transpose` gives it, on white, with square pixels.
"""

import json
import pathlib
import subprocess
import sys

import numpy as np
from PIL import Image, ImageOps

OUT = pathlib.Path(sys.argv[1])
COLORS = [(230, 20, 20), (20, 200, 20), (30, 30, 220), (220, 220, 30)]
WIDTH, HEIGHT = 48, 32

OUT.mkdir(exist_ok=True)
for old in OUT.iterdir():
    old.unlink()
entries = []


def picture(opacity=(255,) * 4):
    pixels = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
    for quarter, (color, alpha) in enumerate(zip(COLORS, opacity)):
        y, x = quarter // 2 * HEIGHT // 2, quarter % 2 * WIDTH // 2
        pixels[y : y + HEIGHT // 2, x : x + WIDTH // 2] = (*color, alpha)
    return Image.fromarray(pixels)


def quarters(shown):
    w, h = shown.size
    return [shown.getpixel((x * w // 4, y * h // 4)) for y in (1, 3) for x in (1, 3)]


def add(name, shown, size=None):
    entries.append({"file": name, "size": size or shown.size, "quarters": quarters(shown.convert("RGB"))})


def on_white(image):
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA"))


def ffmpeg(name, options, image, frames=2):
    rgba = image.convert("RGBA")
    command = f"ffmpeg -v error -y -f rawvideo -pix_fmt rgba -s {rgba.width}x{rgba.height} -r 10 -i - {options}"
    subprocess.run([*command.split(), str(OUT / name)], input=rgba.tobytes() * frames, check=True)


plain = picture().convert("RGB")
for number in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = number
    for name, how in {"jpg": {"quality": 95, "subsampling": 0}, "png": {}, "webp": {"lossless": True}, "tiff": {}}.items():
        path = OUT / f"orientation-{number}.{name}"
        plain.save(path, exif=exif, **how)
        add(path.name, ImageOps.exif_transpose(Image.open(path)))

soft = picture((0, 64, 128, 255))
soft.save(OUT / "alpha.png")
soft.save(OUT / "alpha-lossless.webp", lossless=True, exact=True)
soft.save(OUT / "alpha-lossy.webp", quality=90, exact=True)
ffmpeg("alpha.apng", "-f apng -plays 0", soft)
ffmpeg("alpha.vp9.webm", "-c:v libvpx-vp9 -pix_fmt yuva420p -auto-alt-ref 0 -b:v 200k", soft, 5)
ffmpeg("alpha.vp8.webm", "-c:v libvpx -pix_fmt yuva420p -auto-alt-ref 0 -b:v 200k", soft, 5)
ffmpeg("alpha.prores.mov", "-c:v prores_ks -profile:v 4444 -pix_fmt yuva444p10le", soft)
ffmpeg("alpha.qtrle.mov", "-c:v qtrle -pix_fmt argb", soft)
ffmpeg("alpha.ffv1.mkv", "-c:v ffv1 -pix_fmt yuva444p", soft)
ffmpeg("alpha.png.mov", "-c:v png -pix_fmt rgba", soft)
frames = [soft, picture((64, 0, 255, 128))]
frames[0].save(OUT / "alpha-animated.webp", save_all=True, append_images=frames[1:], duration=100, lossless=True, exact=True)
for path in sorted(OUT.glob("alpha*")):
    add(path.name, on_white(soft))
gray = soft.convert("LA")
gray.save(OUT / "gray-alpha.png")
add("gray-alpha.png", on_white(gray))

# One color is transparent: the first quarter, and with a palette the third one too.
plain.save(OUT / "transparent-color.png", transparency=COLORS[0])
add("transparent-color.png", on_white(Image.open(OUT / "transparent-color.png")))
palette = plain.quantize(4, dither=Image.Dither.NONE)
index = palette.getpixel((1, 1))
alphas = bytes(0 if n == index else 128 if n == palette.getpixel((1, HEIGHT - 2)) else 255 for n in range(4))
palette.save(OUT / "palette.png", transparency=alphas)
add("palette.png", on_white(Image.open(OUT / "palette.png")))
palette.save(OUT / "palette.gif", transparency=index)
add("palette.gif", on_white(Image.open(OUT / "palette.gif")))
mono = plain.convert("L")
mono.save(OUT / "transparent-gray.png", transparency=mono.getpixel((1, 1)))
add("transparent-gray.png", on_white(Image.open(OUT / "transparent-gray.png")))

# Pixels 64:45 are wider, 8:9 narrower than high; JPEG's density is no such thing, as viewers show it.
lossless = "-pix_fmt yuv444p -c:v libx264 -qp 1"
for name, aspect, size in [
    ("wide.mkv", "64/45", (68, 32)),
    ("wide.mp4", "64/45", (68, 32)),
    ("narrow.mkv", "8/9", (48, 36)),
    ("nearly-square.mkv", "200/199", (48, 32)),
]:
    ffmpeg(name, f"{lossless} -vf setsar={aspect}", plain)
    add(name, plain, size)
ffmpeg("wide.ts", "-pix_fmt yuv420p -c:v mpeg2video -q:v 2 -aspect 16:9", plain, 40)
add("wide.ts", plain, (57, 32))
plain.save(OUT / "density.jpg", quality=95, subsampling=0, dpi=(72, 144))
add("density.jpg", plain)

lines = ",\n".join(json.dumps(entry) for entry in entries)
(OUT / "pictures.json").write_text(f"[\n{lines}\n]\n")
print(sum(file.stat().st_size for file in OUT.iterdir()), "bytes")

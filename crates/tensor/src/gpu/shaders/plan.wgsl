// Rows by expert. A pair is a row with one of its experts; pair n is that of `choice[n]`. A tile is up to `size` pairs of one expert:
// its number, the place of its first pair in `order`, and how many they are. Tiles that are not needed have no pairs.
//
// The order of an expert's pairs may differ from run to run: each pair is computed for itself.
struct Params {
    pairs: u32,
    experts: u32,
    size: u32,
    tiles: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> choice: array<vec2<u32>>;
// Tiles, three words each, then `order`.
@group(0) @binding(2) var<storage, read_write> plan: array<u32>;

var<workgroup> counts: array<atomic<u32>, 512>;
var<workgroup> next: array<atomic<u32>, 512>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) index: u32) {
    for (var e = index; e < 512u; e += 256u) {
        atomicStore(&counts[e], 0u);
    }
    for (var t = index; t < p.tiles; t += 256u) {
        plan[3u * t + 2u] = 0u;
    }
    workgroupBarrier();
    for (var n = index; n < p.pairs; n += 256u) {
        atomicAdd(&counts[choice[n].x], 1u);
    }
    workgroupBarrier();
    if index == 0u {
        var place = 0u;
        var tile = 0u;
        for (var e = 0u; e < p.experts; e += 1u) {
            atomicStore(&next[e], place);
            let end = place + atomicLoad(&counts[e]);
            for (; place < end; place += p.size) {
                plan[3u * tile] = e;
                plan[3u * tile + 1u] = place;
                plan[3u * tile + 2u] = min(p.size, end - place);
                tile += 1u;
            }
            place = end;
        }
    }
    workgroupBarrier();
    for (var n = index; n < p.pairs; n += 256u) {
        plan[3u * p.tiles + atomicAdd(&next[choice[n].x], 1u)] = n;
    }
}

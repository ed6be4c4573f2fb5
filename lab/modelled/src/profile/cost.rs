//! What a pass of a model takes: from measured passes, or from sizes and a device's data sheet.

#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// Between measured passes.
    Measured(Curve),
    /// From sizes and rates.
    Roofline(Roofline),
}

impl Cost {
    /// Milliseconds of a pass of `rows` rows after `slots` tokens in the cache, through the first `share` (above 0, at most 1) of
    /// the layers and the output matrix.
    pub fn ms(&self, rows: f64, slots: f64, share: f64) -> f64 {
        match self {
            // Where the output matrix ends cannot be seen in times of whole passes.
            Cost::Measured(curve) => curve.ms(rows, slots) * share,
            Cost::Roofline(roofline) => roofline.ms(rows, slots, share),
        }
    }

    /// True if passes of different rows are known.
    pub fn has_rows(&self) -> bool {
        match self {
            Cost::Measured(curve) => curve.has_rows(),
            Cost::Roofline(_) => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Tokens in the cache before it.
    pub slots: f64,
    pub rows: f64,
    /// Time of the pass in milliseconds.
    pub ms: f64,
}

/// Times of measured passes. Between them, and beyond the outermost, a time is linear in rows and in slots.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve(Vec<(f64, Vec<(f64, f64)>)>);

impl Curve {
    /// A curve through these points. Equal ones (a draft head that holds the same text before every context) are averaged.
    /// Fails if there is none, or one has no rows or an impossible time.
    pub fn new(points: &[Point]) -> Result<Curve, String> {
        if points.is_empty() {
            return Err("has no passes".into());
        }
        for Point { slots, rows, ms } in points {
            if !(ms.is_finite() && *ms > 0.0) {
                return Err(format!("has a pass of {ms} ms ({rows} rows, {slots} slots)"));
            }
            if !(rows.is_finite() && *rows >= 1.0 && slots.is_finite() && *slots >= 0.0) {
                return Err(format!("has a pass of {rows} rows after {slots} slots"));
            }
        }
        let mut levels: Vec<f64> = points.iter().map(|p| p.slots).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        let level = |slots: f64| {
            let own: Vec<&Point> = points.iter().filter(|p| p.slots == slots).collect();
            let mut rows: Vec<f64> = own.iter().map(|p| p.rows).collect();
            rows.sort_by(f64::total_cmp);
            rows.dedup();
            let mean = |rows: f64| {
                let ms: Vec<f64> = own.iter().filter(|p| p.rows == rows).map(|p| p.ms).collect();
                (rows, ms.iter().sum::<f64>() / ms.len() as f64)
            };
            (slots, rows.into_iter().map(mean).collect())
        };
        Ok(Curve(levels.into_iter().map(level).collect()))
    }

    /// True if every context has passes of at least two numbers of rows.
    fn has_rows(&self) -> bool {
        self.0.iter().all(|(_, passes)| passes.len() > 1)
    }

    fn ms(&self, rows: f64, slots: f64) -> f64 {
        let at: Vec<(f64, f64)> =
            self.0.iter().map(|(slots, passes)| (*slots, linear(passes, rows))).collect();
        linear(&at, slots)
    }
}

/// The value at `x` of the line through points in ascending order; never less than the smallest of them, so that noise cannot
/// make passes free beyond them.
fn linear(points: &[(f64, f64)], x: f64) -> f64 {
    let least = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let upper = points.partition_point(|p| p.0 < x).clamp(1, points.len().max(2) - 1);
    let (Some((x0, y0)), Some((x1, y1))) = (points.get(upper - 1), points.get(upper)) else { return least };
    (y0 + (y1 - y0) * (x - x0) / (x1 - x0)).max(least)
}

/// Sizes of a language model, in weights, values and multiply-adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    pub layers: f64,
    pub layer_weights: f64,
    pub head_weights: f64,
    /// Keys and values of one slot in one layer.
    pub kv_values: f64,
    /// Multiply-adds of attention for one row, one slot and one layer.
    pub attention: f64,
    /// Width of the states.
    pub hidden: f64,
}

impl Sizes {
    /// A draft head on this model: one layer, the projection of two states to one, the model's output matrix.
    pub fn head(&self) -> Sizes {
        let projection = 2.0 * self.hidden * self.hidden;
        Sizes { layers: 1.0, layer_weights: self.layer_weights + projection, ..*self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Memory bandwidth in bytes per millisecond.
    pub bandwidth: f64,
    /// Floating-point operations per millisecond.
    pub flops: f64,
    /// Host time of a layer in milliseconds: kernels that are launched one by one.
    pub layer_ms: f64,
    /// How often a pass moves the bytes of the cache, all in all: 1 for kernels that read it once; many times that for attention
    /// that repeats grouped heads, copies the cache or stores its weights.
    pub kv_factor: f64,
    /// Sequences that are decoded together: a pass reads the weights once, and the cache of each.
    pub sequences: f64,
}

/// A pass takes the host's time and the slower of moving its bytes and of computing its products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    pub sizes: Sizes,
    pub weight_bytes: f64,
    pub device: Device,
}

/// Bytes of a stored key or value.
const KV_BYTES: f64 = 2.0;

impl Roofline {
    fn ms(&self, rows: f64, slots: f64, share: f64) -> f64 {
        let (sizes, device) = (&self.sizes, &self.device);
        let layers = (sizes.layers * share).max(1.0);
        let cache = self.cache_bytes(layers, slots) * device.kv_factor;
        let moving = (self.weights(layers) * self.weight_bytes + cache) / device.bandwidth;
        let macs = device.sequences * rows * (self.weights(layers) + layers * slots * sizes.attention);
        layers * device.layer_ms + moving.max(2.0 * macs / device.flops)
    }

    fn weights(&self, layers: f64) -> f64 {
        layers * self.sizes.layer_weights + self.sizes.head_weights
    }

    fn cache_bytes(&self, layers: f64, slots: f64) -> f64 {
        self.device.sequences * layers * slots * self.sizes.kv_values * KV_BYTES
    }

    /// What `layer_ms` and `kv_factor` have to be for one row after `slots` tokens to take `ms`.
    pub fn equation(&self, slots: f64, ms: f64) -> Equation {
        let layers = self.sizes.layers;
        let weights_ms = self.weights(layers) * self.weight_bytes / self.device.bandwidth;
        Equation { layers, cache_ms: self.cache_bytes(layers, slots) / self.device.bandwidth, weights_ms, ms }
    }
}

/// `layers · layer_ms + cache_ms · kv_factor + weights_ms = ms`: a pass of one row, which moving bytes bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Equation {
    layers: f64,
    cache_ms: f64,
    weights_ms: f64,
    ms: f64,
}

impl Equation {
    /// Fails if weights and layers alone take longer.
    pub fn kv_factor(&self, layer_ms: f64) -> Result<f64, String> {
        let Equation { layers, cache_ms, weights_ms, ms } = *self;
        let without = layers * layer_ms + weights_ms;
        let factor = (ms - without) / cache_ms;
        if factor.is_finite() && factor >= 0.0 {
            return Ok(factor);
        }
        Err(format!("calibrates a pass to {ms} ms, but its layers and weights alone take {without:.1} ms"))
    }

    /// `layer_ms` and `kv_factor` that explain both passes. Fails if none do that are at least 0.
    pub fn both(&self, other: &Equation) -> Result<(f64, f64), String> {
        let (a, b) = (self, other);
        let (left, right) = (a.ms - a.weights_ms, b.ms - b.weights_ms);
        let determinant = a.layers * b.cache_ms - b.layers * a.cache_ms;
        let layer_ms = (left * b.cache_ms - right * a.cache_ms) / determinant;
        let kv_factor = (a.layers * right - b.layers * left) / determinant;
        let possible = |value: f64| value.is_finite() && value >= 0.0;
        if possible(layer_ms) && possible(kv_factor) {
            return Ok((layer_ms, kv_factor));
        }
        Err(format!(
            "calibrates passes to {} and {} ms, which would take a layer_ms of {layer_ms:.2} and a kv_factor of {kv_factor:.1}",
            a.ms, b.ms
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(slots: f64, rows: f64, ms: f64) -> Point {
        Point { slots, rows, ms }
    }

    #[test]
    fn a_curve_is_linear_between_its_points_and_beyond() {
        let points = [
            point(100.0, 1.0, 1.0),
            point(100.0, 11.0, 3.0),
            point(300.0, 1.0, 2.0),
            point(300.0, 11.0, 6.0),
        ];
        let curve = Curve::new(&points).unwrap();
        assert!(curve.has_rows());
        let cases = [
            (1.0, 100.0, 1.0),
            (6.0, 100.0, 2.0),
            (6.0, 200.0, 3.0),
            (21.0, 100.0, 5.0),
            (11.0, 400.0, 7.5),
            // Not below the least measured value.
            (1.0, 0.0, 1.0),
        ];
        for (rows, slots, ms) in cases {
            assert!((curve.ms(rows, slots) - ms).abs() < 1e-12, "{rows} rows, {slots} slots");
        }
        let share = Cost::Measured(curve).ms(6.0, 200.0, 0.5);
        assert!((share - 1.5).abs() < 1e-12);
    }

    #[test]
    fn one_point_is_a_constant_and_equal_points_are_averaged() {
        let curve = Curve::new(&[point(100.0, 1.0, 2.0), point(100.0, 1.0, 4.0)]).unwrap();
        assert!(!curve.has_rows());
        assert_eq!((curve.ms(1.0, 5.0), curve.ms(8.0, 5000.0)), (3.0, 3.0));
    }

    #[test]
    fn impossible_points_are_refused() {
        assert_eq!(Curve::new(&[]).unwrap_err(), "has no passes");
        for (bad, words) in [
            (point(1.0, 1.0, -2.0), "-2 ms"),
            (point(1.0, 1.0, f64::NAN), "NaN ms"),
            (point(1.0, 0.0, 1.0), "0 rows"),
            (point(-1.0, 1.0, 1.0), "-1 slots"),
        ] {
            assert!(Curve::new(&[bad]).unwrap_err().contains(words), "{bad:?}");
        }
    }

    /// 10 layers of 1000 weights, an output matrix of 5000; 1000 bytes and 4000 operations a millisecond.
    fn roofline() -> Roofline {
        let sizes = Sizes {
            layers: 10.0,
            layer_weights: 1000.0,
            head_weights: 5000.0,
            kv_values: 8.0,
            attention: 16.0,
            hidden: 10.0,
        };
        let device =
            Device { bandwidth: 1000.0, flops: 40_000.0, layer_ms: 0.5, kv_factor: 1.0, sequences: 1.0 };
        Roofline { sizes, weight_bytes: 2.0, device }
    }

    #[test]
    fn a_pass_is_bound_by_memory_and_then_by_arithmetic() {
        let roofline = roofline();
        // 10 x 0.5 ms of the host, 30,000 bytes of weights.
        assert_eq!(roofline.ms(1.0, 0.0, 1.0), 35.0);
        assert_eq!(roofline.ms(26.0, 0.0, 1.0), 35.0);
        // 15,000 multiply-adds a row.
        assert_eq!(roofline.ms(100.0, 0.0, 1.0), 80.0);
        // A slot: 10 layers x 8 values x 2 bytes.
        assert_eq!(roofline.ms(1.0, 100.0, 1.0), 51.0);
        // Half of the layers, and the output matrix.
        assert_eq!(roofline.ms(1.0, 100.0, 0.5), 2.5 + 20.0 + 8.0);
        // Two sequences have two caches, and twice the products.
        let two = Device { sequences: 2.0, ..roofline.device };
        let two = Roofline { device: two, ..roofline };
        assert_eq!((two.ms(1.0, 100.0, 1.0), two.ms(100.0, 0.0, 1.0)), (67.0, 155.0));
        let head = Roofline { sizes: roofline.sizes.head(), ..roofline };
        assert_eq!(head.ms(1.0, 0.0, 1.0), 0.5 + 2.0 * 6.2);
    }

    #[test]
    fn calibration_solves_the_traffic_of_the_cache() {
        let equation = |slots, ms| roofline().equation(slots, ms);
        assert_eq!(equation(100.0, 35.0 + 48.0).kv_factor(0.5).unwrap(), 3.0);
        assert!(equation(100.0, 20.0).kv_factor(0.5).unwrap_err().contains("alone take 35.0 ms"));
        assert!(equation(0.0, 35.0).kv_factor(0.5).is_err());
    }

    #[test]
    fn two_passes_solve_the_host_time_too() {
        let equation = |slots, ms| roofline().equation(slots, ms);
        // 10 x 0.5 ms of the host, 30 ms of weights, 16 ms for 100 slots.
        let long = equation(100.0, 35.0 + 48.0);
        let (layer_ms, kv_factor) = long.both(&equation(10.0, 35.0 + 4.8)).unwrap();
        assert!((layer_ms - 0.5).abs() < 1e-9 && (kv_factor - 3.0).abs() < 1e-9);
        assert!(long.both(&equation(10.0, 10.0)).unwrap_err().contains("layer_ms of -"));
        assert!(long.both(&long).is_err());
    }
}

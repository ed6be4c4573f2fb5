//! Kernels: WGSL compiled for a device.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use super::{Gpu, GpuError, Result, lock};

/// What a kernel does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `var<storage, read>`.
    Read,
    /// `var<storage, read_write>`.
    Write,
}

#[derive(Debug)]
pub struct Kernel {
    pub(super) name: String,
    /// Unique among the kernels of the device.
    pub(super) id: usize,
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) layout: wgpu::BindGroupLayout,
    pub(super) bindings: Vec<Access>,
}

/// Compiled kernels by name and constants.
pub(super) type Kernels = Mutex<HashMap<(String, Vec<(String, u64)>), Arc<Kernel>>>;

/// The dot product of packed 8-bit integers: a builtin, for which drivers have an instruction.
const BUILTIN: &str = "dot4I8Packed(";

/// The same by hand. Both are exact, so both forms of a kernel compute the same bits.
const BY_HAND: (&str, &str) = (
    "plain_dot4_i8(",
    "
fn plain_dot4_i8(a: u32, b: u32) -> i32 {
    let x = vec4<i32>(bitcast<i32>(a << 24u), bitcast<i32>(a << 16u), bitcast<i32>(a << 8u), bitcast<i32>(a)) >> vec4<u32>(24u);
    let y = vec4<i32>(bitcast<i32>(b << 24u), bitcast<i32>(b << 16u), bitcast<i32>(b << 8u), bitcast<i32>(b)) >> vec4<u32>(24u);
    return dot(x, y);
}
",
);

/// A source without features that a driver may lack; `None` if it uses none.
fn plain_form(source: &str) -> Option<String> {
    source.contains(BUILTIN).then(|| source.replace(BUILTIN, BY_HAND.0) + BY_HAND.1)
}

impl Gpu {
    /// The compiled kernel of a WGSL source whose entry point is `main`; kept by its name and constants. `bindings` are the
    /// storage buffers at `@group(0) @binding(1)` and up; `@binding(0)` is the uniform block of parameters, which every kernel
    /// has. `constants` are its `override`s.
    ///
    /// Buffer accesses stay in bounds in any kernel. Loops are not bounded by the compiler: each must end. A
    /// kernel that the driver refuses is compiled in its plain form, and [`Gpu::notes`] says so. Fails if the kernel does not
    /// compile, or has more bindings than the device allows.
    pub fn kernel(
        &self,
        name: &str,
        source: &dyn Fn() -> String,
        bindings: &[Access],
        constants: &[(&str, f64)],
    ) -> Result<Arc<Kernel>> {
        let bits = constants.iter().map(|(name, value)| ((*name).to_owned(), value.to_bits()));
        let key = (name.to_owned(), bits.collect());
        // Held while compiling: a second thread waits for the kernel instead of compiling it again.
        let mut kernels = lock(self.kernels());
        if let Some(kernel) = kernels.get(&key) {
            return Ok(Arc::clone(kernel));
        }
        let source = source();
        let plain = plain_form(&source);
        let compile = |source: &str| self.compile(name, kernels.len(), source, bindings, constants);
        let kernel = match plain {
            Some(plain) if self.is_plain() => compile(&plain),
            plain => self.or_plain(compile(&source), plain.as_deref(), compile),
        };
        let kernel = Arc::new(kernel?);
        kernels.insert(key, Arc::clone(&kernel));
        Ok(kernel)
    }

    /// A compiled kernel or, if its source was refused, its plain form.
    pub(super) fn or_plain(
        &self,
        compiled: Result<Kernel>,
        plain: Option<&str>,
        compile: impl Fn(&str) -> Result<Kernel>,
    ) -> Result<Kernel> {
        match (compiled, plain) {
            (Err(GpuError::Shader { kernel, why }), Some(plain)) => {
                let made = compile(plain)?;
                self.note(format!("the GPU refuses kernel `{kernel}`, which runs in its plain form: {why}"));
                Ok(made)
            }
            (compiled, _) => compiled,
        }
    }

    pub(super) fn compile(
        &self,
        name: &str,
        id: usize,
        source: &str,
        bindings: &[Access],
        constants: &[(&str, f64)],
    ) -> Result<Kernel> {
        let (size, limit) =
            (bindings.len() as u64, self.limits().max_storage_buffers_per_shader_stage.into());
        if size > limit {
            return Err(GpuError::TooLarge { what: format!("kernel `{name}` (buffers)"), size, limit });
        }
        let entry = |binding: usize, ty, has_dynamic_offset| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
            count: None,
        };
        let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform, true)];
        entries.extend(bindings.iter().enumerate().map(|(i, access)| {
            entry(i + 1, wgpu::BufferBindingType::Storage { read_only: *access == Access::Read }, false)
        }));
        let device = self.device();
        let made = self.scoped(0, || {
            let label = Some(name);
            // Loops with an extra counter are slow, and hide their bounds from the driver's compiler.
            let checks = wgpu::ShaderRuntimeChecks {
                force_loop_bounding: false,
                ..wgpu::ShaderRuntimeChecks::checked()
            };
            let about =
                wgpu::ShaderModuleDescriptor { label, source: wgpu::ShaderSource::Wgsl(source.into()) };
            // SAFETY: kernels are part of this program, and each of their loops counts up to a bound; every other check is on.
            let module = unsafe { device.create_shader_module_trusted(about, checks) };
            let layout = device
                .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
            let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label,
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label,
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions { constants, ..Default::default() },
                cache: None,
            });
            (pipeline, layout)
        });
        match made {
            Ok((pipeline, layout)) => {
                Ok(Kernel { name: name.into(), id, pipeline, layout, bindings: bindings.into() })
            }
            Err(GpuError::Invalid(why)) => Err(GpuError::Shader { kernel: name.into(), why }),
            Err(other) => Err(other),
        }
    }
}

#[cfg(test)]
mod tests;

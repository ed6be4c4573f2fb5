/// What kind of device an adapter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A card with its own memory.
    Discrete,
    /// A GPU that shares the system's memory.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// A GPU whose driver does not say more.
    Other,
    /// A driver that computes on the CPU.
    Software,
}

impl AdapterKind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            AdapterKind::Discrete => "discrete",
            AdapterKind::Integrated => "integrated",
            AdapterKind::Virtual => "virtual",
            AdapterKind::Other => "unknown type",
            AdapterKind::Software => "software",
        }
    }
}

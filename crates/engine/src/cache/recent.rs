//! A small map that drops its least recently used entry.

/// Values by key, most recently used first.
pub struct Recent<K, V> {
    items: Vec<(K, V)>,
    capacity: usize,
}

impl<K: PartialEq, V> Recent<K, V> {
    /// At most `capacity` values.
    pub fn new(capacity: usize) -> Self {
        Self { items: Vec::new(), capacity }
    }

    /// Move the value of a key to the front, if it is there.
    pub(crate) fn touch(&mut self, key: &K) -> Option<&mut V> {
        let at = self.items.iter().position(|(k, _)| k == key)?;
        self.items[..=at].rotate_right(1);
        self.items.first_mut().map(|(_, v)| v)
    }

    /// The most recently used value that fits.
    pub fn find(&self, mut fits: impl FnMut(&K, &V) -> bool) -> Option<&V> {
        self.items.iter().find(|(k, v)| fits(k, v)).map(|(_, v)| v)
    }

    /// Take the value of a key out.
    pub fn take(&mut self, key: &K) -> Option<V> {
        let at = self.items.iter().position(|(k, _)| k == key)?;
        Some(self.items.remove(at).1)
    }

    /// Take the least recently used value that may be evicted.
    pub(crate) fn take_oldest(&mut self, mut may: impl FnMut(&K) -> bool) -> Option<V> {
        let at = self.items.iter().rposition(|(k, _)| may(k))?;
        Some(self.items.remove(at).1)
    }

    /// Put a value in front, replacing an older one of the same key. Beyond the capacity, the last one is dropped.
    pub fn insert(&mut self, key: K, value: V) -> &mut V {
        self.items.retain(|(k, _)| *k != key);
        self.items.insert(0, (key, value));
        self.items.truncate(self.capacity);
        &mut self.items[0].1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Keys, most recently used first.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.items.iter().map(|(k, _)| k)
    }

    /// Values, most recently used first.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.items.iter().map(|(_, v)| v)
    }
}

//! The parts of the configuration that can be changed.

use super::Draft;
use crate::config::StoredConfig;
use crate::record::{CONFIG_KEY, META, to_json};
use crate::{Durability, Quantization};

impl Draft<'_> {
    /// Keeps vectors so in segments frozen after this write.
    pub(crate) fn set_quantization(&mut self, quantization: Quantization) {
        self.next.config.graph.quantization = quantization;
        self.put_config();
    }

    /// Acknowledges writes by this promise, beginning with this one.
    pub(crate) fn set_durability(&mut self, durability: Durability) {
        self.next.config.durability = durability;
        self.put_config();
    }

    fn put_config(&mut self) {
        let stored = StoredConfig::new(&self.next.config, self.next.identity);
        self.visible.put(META, CONFIG_KEY, &to_json(&stored));
    }
}

//! How the graph is to keep vectors: a setting that the next freeze follows.

use super::Draft;
use crate::Quantization;
use crate::config::StoredConfig;
use crate::record::{CONFIG_KEY, META, to_json};

impl Draft<'_> {
    /// Keeps vectors so in segments frozen after this write.
    pub(crate) fn set_quantization(&mut self, quantization: Quantization) {
        self.next.config.graph.quantization = quantization;
        let stored = StoredConfig::new(&self.next.config, self.next.identity);
        self.visible.put(META, CONFIG_KEY, &to_json(&stored));
    }
}

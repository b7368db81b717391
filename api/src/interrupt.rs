//! The interrupt signal, for programs that do not serve.

use std::future::poll_fn;
use std::io;
use std::thread;

use actix_web::rt;

/// Calls `action` when the process gets SIGINT for the first time, instead of being ended by it. Later ones
/// do nothing.
pub fn when_interrupted(action: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let wait = move || {
        rt::System::new().block_on(async {
            use rt::signal::unix::{SignalKind, signal};
            let mut interrupts = match signal(SignalKind::interrupt()) {
                Ok(interrupts) => interrupts,
                Err(error) => return tracing::warn!(%error, "the interrupt signal cannot be received"),
            };
            if poll_fn(|context| interrupts.poll_recv(context)).await.is_some() {
                action();
            }
        });
    };
    thread::Builder::new().name("interrupt".to_owned()).spawn(wait).map(drop)
}

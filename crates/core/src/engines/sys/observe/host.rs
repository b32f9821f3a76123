//! `sys/host-info`, `sys/in-flight-req`.

use jiff::Timestamp;
use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::platform::host::HostMachine;
use crate::state::Core;

const OK: u16 = 200;

/// The machine, in the fields that Vault's clients read.
pub(in crate::engines::sys) fn info(core: &Core, now: Timestamp) -> Result<Response, Error> {
    let machine = core.host.as_ref().and_then(|host| host.machine());
    let machine =
        machine.ok_or_else(|| Error::Unavailable("nothing is known of this machine".to_owned()))?;
    Ok(Response::data(&Json::object([
        ("cpu", cpus(&machine)),
        ("host", host(&machine)),
        ("memory", memory(&machine)),
        ("timestamp", now.to_string().into()),
    ])))
}

fn cpus(machine: &HostMachine) -> Json {
    let numbered = (0_u64..).zip(&machine.cpus);
    let cpus = numbered.map(|(number, cpu)| {
        Json::object([
            ("cpu", number.into()),
            ("modelName", cpu.model.as_str().into()),
            ("mhz", Json::Number(cpu.mhz.to_string().into())),
        ])
    });
    Json::Array(cpus.collect())
}

fn host(machine: &HostMachine) -> Json {
    Json::object([
        ("hostname", machine.hostname.as_str().into()),
        ("uptime", machine.uptime.as_secs().into()),
        ("bootTime", machine.booted.as_second().into()),
        ("procs", machine.processes.into()),
        ("os", machine.os.as_str().into()),
        ("kernelVersion", machine.kernel_version.as_str().into()),
        ("kernelArch", machine.architecture.as_str().into()),
    ])
}

fn memory(machine: &HostMachine) -> Json {
    let memory = machine.memory;
    Json::object([
        ("total", memory.total.into()),
        ("available", memory.available.into()),
        ("used", memory.total.saturating_sub(memory.available).into()),
        ("free", memory.free.into()),
        ("cached", memory.cached.into()),
        ("swaptotal", memory.swap_total.into()),
        ("swapfree", memory.swap_free.into()),
    ])
}

/// Requests that wait for something, this one among them.
pub(in crate::engines::sys) fn in_flight(core: &Core) -> Response {
    let waiting = core.metrics.in_flight.all().into_iter().map(|(number, waits)| {
        let method = match waits.operation {
            Operation::Read => "GET",
            Operation::Update => "PUT",
            Operation::Patch => "PATCH",
            Operation::Delete => "DELETE",
            Operation::List => "LIST",
            Operation::Scan => "SCAN",
            Operation::Recover => "RECOVER",
        };
        let remote = waits.remote.map(|remote| remote.to_string()).unwrap_or_default();
        let described = Json::object([
            ("start_time", waits.since.to_string().into()),
            ("client_remote_address", remote.into()),
            ("request_path", format!("/v1/{}", waits.path).into()),
            ("request_method", method.into()),
            ("client_id", "".into()),
        ]);
        (number.to_string(), described)
    });
    let waiting: Map = waiting.collect();
    Response::Bare { code: OK, body: waiting.into() }
}

//! CUDA graphs: loops that run on the device without the host, and recorded work of several devices in lockstep.

use super::device::Device;
use super::launches::Launches;
use super::library::check;
use super::stream::{DeviceBarrier, Stream};
use crate::error::Result;
use cudarc::driver::sys;
use std::sync::Arc;

/// A recorded graph.
///
/// The graph consists of one WHILE node, or of a body that runs once ([`RecordedGraph::record_once`]). The body of a
/// WHILE node repeats until a kernel in it clears the condition ([`RecordedGraph::record`]).
pub struct RecordedGraph {
    device: Arc<Device>,
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
    /// Handle of the loop condition; 0 for a graph that runs once.
    handle: sys::CUgraphConditionalHandle,
    /// Record of the launches in the body, for comparison with a later body.
    launches: Launches,
}

// SAFETY: a graph may be used from any thread, but by one thread at a time. The handle that owns the graph is used by
// one thread at a time.
unsafe impl Send for RecordedGraph {}

impl RecordedGraph {
    /// Records a loop from the launches of `body`, which receives a stream and the handle of the condition.
    ///
    /// If there is a previous loop, first calls `body` without executing its launches. Returns `previous` unchanged if
    /// these launches have the same kernels, shapes and arguments.
    pub fn record(
        device: &Arc<Device>,
        previous: Option<Self>,
        mut body: impl FnMut(&Stream, u64) -> Result<()>,
    ) -> Result<Self> {
        let stream = Stream::new(device)?;
        if let Some(previous) = previous {
            *stream.launches.borrow_mut() = Some(Launches::only_recorded());
            body(&stream, previous.handle)?;
            if stream.launches.take().is_some_and(|launches| launches.has_same_launches_as(&previous.launches)) {
                return Ok(previous);
            }
        }
        Self::record_body(device, &stream, body)
    }

    fn record_body(
        device: &Arc<Device>,
        stream: &Stream,
        mut body: impl FnMut(&Stream, u64) -> Result<()>,
    ) -> Result<Self> {
        let _entered = device.enter()?;
        let mut recorded = Self {
            device: device.clone(),
            graph: std::ptr::null_mut(),
            executable: std::ptr::null_mut(),
            handle: 0,
            launches: Launches::default(),
        };
        let (mut handle, mut node) = (0, std::ptr::null_mut());
        // SAFETY: the context is current; the pointers outlive the calls. The parameters are those of a WHILE node.
        let body_graph = unsafe {
            check(sys::cuGraphCreate(&mut recorded.graph, 0), "a graph")?;
            // `CU_GRAPH_COND_ASSIGN_DEFAULT`: each launch of the graph sets the condition to its default value 1.
            const ASSIGN_DEFAULT: u32 = 1;
            let status =
                sys::cuGraphConditionalHandleCreate(&mut handle, recorded.graph, device.context, 1, ASSIGN_DEFAULT);
            check(status, "the condition of a loop")?;
            let mut parameters: sys::CUgraphNodeParams = std::mem::zeroed();
            parameters.type_ = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
            parameters.__bindgen_anon_1.conditional = sys::CUDA_CONDITIONAL_NODE_PARAMS {
                handle,
                type_: sys::CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE,
                size: 1,
                phGraph_out: std::ptr::null_mut(),
                ctx: device.context,
            };
            let no_dependencies = (std::ptr::null(), std::ptr::null());
            let status = sys::cuGraphAddNode_v2(
                &mut node,
                recorded.graph,
                no_dependencies.0,
                no_dependencies.1,
                0,
                &mut parameters,
            );
            check(status, "the node of a loop")?;
            let body_graph = *parameters.__bindgen_anon_1.conditional.phGraph_out;
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            let status = sys::cuStreamBeginCaptureToGraph(
                stream.stream,
                body_graph,
                no_dependencies.0,
                no_dependencies.1,
                0,
                mode,
            );
            check(status, "recording a loop")?;
            body_graph
        };
        recorded.handle = handle;
        *stream.launches.borrow_mut() = Some(Launches::default());
        let result = body(stream, handle);
        recorded.launches = stream.launches.take().unwrap_or_default();
        let mut captured = body_graph;
        // SAFETY: ends the capture that began above, whether or not the body succeeded.
        let status = unsafe { sys::cuStreamEndCapture(stream.stream, &mut captured) };
        result?;
        check(status, "recording a loop")?;
        recorded.instantiate()?;
        Ok(recorded)
    }

    /// Records a graph that executes the launches of `body` once. `body` receives a new stream with the devices of the
    /// stream `model_stream`. In the graph, the streams of these devices synchronize through the kernel that
    /// `launch_barrier` launches.
    pub fn record_once(
        model_stream: &Stream,
        launch_barrier: DeviceBarrier,
        body: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<Self> {
        let devices = model_stream.devices()?;
        let device = &devices[0];
        let stream = Stream::new(device)?.with_peers(&devices[1..])?;
        let _entered = device.enter()?;
        let (graph, executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut recorded = Self { device: device.clone(), graph, executable, handle: 0, launches: Launches::default() };
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is live.
        check(unsafe { sys::cuStreamBeginCapture_v2(stream.stream, mode) }, "recording an iteration")?;
        let result =
            stream.join_capture(launch_barrier).and_then(|()| body(&stream)).and_then(|()| stream.leave_capture());
        // SAFETY: ends the capture that began above, whether or not the body succeeded; the pointer outlives the call.
        let status = unsafe { sys::cuStreamEndCapture(stream.stream, &mut recorded.graph) };
        result?;
        check(status, "recording an iteration")?;
        recorded.instantiate()?;
        Ok(recorded)
    }

    fn instantiate(&mut self) -> Result<()> {
        // SAFETY: the graph is complete, and the pointer outlives the call.
        let status = unsafe { sys::cuGraphInstantiateWithFlags(&mut self.executable, self.graph, 0) };
        check(status, "instantiating a graph")
    }

    /// Launches the graph on a stream.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        let stream = stream.after_all_devices()?;
        // SAFETY: `record` or `record_once` instantiated the graph. The arrays that the graph uses live as long as the
        // handle.
        check(unsafe { sys::cuGraphLaunch(self.executable, stream) }, "launching a graph")
    }
}

impl Drop for RecordedGraph {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: this value created both graphs, and each of them is destroyed once.
            unsafe {
                if !self.executable.is_null() {
                    let _ = sys::cuGraphExecDestroy(self.executable);
                }
                if !self.graph.is_null() {
                    let _ = sys::cuGraphDestroy(self.graph);
                }
            }
        }
    }
}

// RUN: async-pipe-opt %s --async-pipe-count-waits=check --split-input-file --verify-diagnostics

func.func @unsafe() {
  // expected-note@+1 {{the awaited group is committed}}
  %a = nvgpu.device_async_create_group {async_pipe.empty}
  // expected-error@+2 {{the wait lets 1 groups stay in flight, but on some path only 0 are younger}}
  // expected-note@+1 {{write 0}}
  nvgpu.device_async_wait %a {numGroups = 1 : i32}
  return
}

// -----

func.func @no_token() {
  %k = arith.constant 1 : i32
  // expected-error@+2 {{waits on a value of type i32, which is no token}}
  // expected-note@+1 {{wait on the !nvgpu.device.async.token that a commit returns}}
  "async_pipe.wait_queue"(%k) {queue = 0 : i64} : (i32) -> ()
  return
}

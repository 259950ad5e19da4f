// RUN: async-pipe-opt %s --split-input-file --verify-diagnostics --async-pipe-tokens

func.func @more_than_there_are() {
  nvvm.cp.async.commit.group
  // expected-remark @below {{the wait retires no group on every path: fewer than 2 are known here}}
  nvvm.cp.async.wait.group 1
  return
}

// -----

func.func @marks_without_a_chip() {
  rocdl.asyncmark
  // expected-remark @below {{no op with a token stands for groups of async-lds; with a chip whose copies use it there may be}}
  rocdl.wait.asyncmark 0
  return
}

// -----

func.func @wgmma() {
  nvvm.wgmma.commit.group.sync.aligned
  // expected-remark @below {{no op with a token stands for groups of wgmma}}
  nvvm.wgmma.wait.group.sync.aligned 0
  return
}

"""A package of somebody else's: an op `demo.copy` that copies asynchronously.

    "demo.copy"(%to, %j, %from, %i) {elements = 4} : … -> !nvgpu.device.async.token

Copies `elements` neighbours, on the queue of cp.async. Its entry points name a row, the machine's
semantics, and a pass `demo-lower` that writes NVIDIA's op.
"""

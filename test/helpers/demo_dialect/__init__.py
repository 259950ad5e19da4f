"""A package of somebody else's: an op `demo.copy` that copies asynchronously.

    "demo.copy"(%to, %j, %from, %i) {elements = 4} : … -> !nvgpu.device.async.token

Copies `elements` neighbours, on the queue of cp.async. Its entry points name a row, the machine's
semantics, and a pass `demo-lower` that writes NVIDIA's op. `demo.dma_copy` is the same on a queue
of the package's own, whose groups `demo.dma_commit` makes and `demo.dma_wait` waits for.
"""

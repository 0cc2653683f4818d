"""The shortest program that runs kernels on the emulated GPU:  MOCKGPU=1 DEV=AMD python examples/hello.py"""

from tinygrad import Device, Tensor

squares = Tensor(list(range(8))).square()
print(f"{Device.DEFAULT} says: the squares are {squares.tolist()}, and they add up to {squares.sum().item()}")

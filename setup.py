"""What pyproject.toml cannot say: the start-up file ``mockgpu.pth``, and editable installs that cost nothing.

Python runs the lines of a ``.pth`` file in site-packages when an interpreter starts, so that MOCKGPU=1 reaches every
process of a program, its children included.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from setuptools import setup  # first: it provides distutils
from setuptools.command.editable_wheel import editable_wheel

from distutils.command.install_data import install_data  # isort: skip

ROOT = Path(__file__).parent.resolve()
START_UP = "mockgpu/mockgpu.pth"

#: Finds the package in the checkout. setuptools' own finder would add more than 10 ms to every start of Python.
EDITABLE = (
    "import sys; sys.meta_path.append(type('MockGPUCheckout', (), {{'find_spec': staticmethod("
    "lambda name, path=None, target=None: name == 'mockgpu' and "
    "__import__('importlib.machinery').machinery.PathFinder.find_spec(name, [{root!r}]) or None)}}))\n"
)


class InstallStartUpFile(install_data):
    """Installs the data files into the folder of the packages, not below the environment's root."""

    def finalize_options(self) -> None:
        self.set_undefined_options("install", ("install_lib", "install_dir"))
        super().finalize_options()


class CheckoutOnPath(nullcontext[None]):
    """An editable wheel's content: the start-up file, and the finder of the checkout."""

    written = False

    def __call__(self, wheel: Any, *_: object) -> None:
        wheel.writestr("__editable__.mockgpu.pth", EDITABLE.format(root=str(ROOT)))
        wheel.writestr("mockgpu.pth", (ROOT / START_UP).read_text())
        CheckoutOnPath.written = True


class EditableWheel(editable_wheel):
    """An editable install for which ``mockgpu/__init__.py`` finds the folders that stand beside it."""

    def _select_strategy(self, *_: object) -> CheckoutOnPath:
        return CheckoutOnPath()

    def run(self) -> None:
        super().run()
        if not CheckoutOnPath.written:
            raise RuntimeError("this setuptools builds editable wheels in another way; use `pip install .`")


setup(data_files=[("", [START_UP])], cmdclass={"install_data": InstallStartUpFile, "editable_wheel": EditableWheel})

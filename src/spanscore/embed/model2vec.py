"""Embedding by a static model in this process."""

import asyncio
import hashlib
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spanscore.embed.config import Config
from spanscore.errors import ConfigError, EmbeddingError

_FILES: Final = ("*.json", "*.safetensors")
"""What is downloaded of a model on the hub: its tables, its tokenizer, its configuration; never
code.
"""


class Model2Vec:
    """A model2vec model, from a folder or the Hugging Face hub; `config.local_model` is set.

    Opening one loads it, and raises ConfigError when it cannot be used: the extra is not installed,
    there is no such model, or a file has another SHA-256 than the one that is pinned.
    """

    def __init__(self, config: Config) -> None:
        model = str(config.local_model)
        library = _import_model2vec()
        folder = _folder(model)
        _check_pins(folder, config.sha256)
        try:
            self._model: Any = library.StaticModel.from_pretrained(str(folder), normalize=True)
        except Exception as error:  # the libraries below raise whatever a broken file leads them to
            raise ConfigError(
                f"embedding.local_model: {model} is no model2vec model: {error}"
            ) from error
        self._name = f"model2vec/{Path(model).name}@{_digest(folder)[:12]}"

    @property
    def name(self) -> str:
        """`model2vec/`, the model's name, `@` and the first digits of its SHA-256."""
        return self._name

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), the model's dimensions); zeros for a text without a word that the
        model knows.

        Raises EmbeddingError when the model fails on a text.
        """
        try:
            rows = await asyncio.to_thread(
                self._model.encode, list(texts), use_multiprocessing=False
            )
        except (RuntimeError, TypeError, ValueError) as error:
            raise EmbeddingError(f"{self.name} gave no embedding: {error}") from error
        return np.asarray(rows, dtype=np.float32)


def _import_model2vec() -> Any:
    try:
        return importlib.import_module("model2vec")
    except ImportError as error:
        raise ConfigError(
            "embedding.local_model: needs model2vec: pip install 'spanscore[local]'"
        ) from error


def _folder(model: str) -> Path:
    """The folder that holds `model`: itself, or where the hub's files of that name were put."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise ConfigError(
            f"embedding.local_model: {model} is neither a folder nor the name of a model on the hub"
        )
    hub = importlib.import_module("huggingface_hub")
    try:
        return Path(hub.snapshot_download(model, allow_patterns=list(_FILES)))
    except Exception as error:  # the hub's client lets its HTTP library's errors through
        raise ConfigError(
            f"embedding.local_model: {model} could not be downloaded: {error}"
        ) from error


def _check_pins(folder: Path, pins: Mapping[str, str]) -> None:
    for name, pinned in pins.items():
        path = folder / name
        if not path.is_file():
            raise ConfigError(f"embedding.sha256: pins {name}, which {folder} does not hold")
        found = _sha256(path)
        if found != pinned:
            raise ConfigError(
                f"embedding.sha256: {path} has SHA-256 {found}, but {pinned} is pinned: it is"
                " another file"
            )


def _digest(folder: Path) -> str:
    """One SHA-256 over the model's files, which distinguishes two models of the same name."""
    paths = sorted(path for pattern in _FILES for path in folder.rglob(pattern))
    parts = [f"{_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

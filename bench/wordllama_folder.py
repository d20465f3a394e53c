"""WordLlama's table of token vectors, which its package ships, as a folder that
`embedding.local_model` can name.

    pip download --no-deps wordllama && unzip -q wordllama-*.whl -d unpacked
    python bench/wordllama_folder.py unpacked /models/wordllama-l2-supercat-256

The folder's name is the model's in a score's provenance, and the one by which its threshold is
known.
"""

import argparse
import json
import shutil
from pathlib import Path

from safetensors.numpy import load_file, save_file


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("unpacked", type=Path, help="the unpacked wheel of wordllama")
    parser.add_argument("folder", type=Path, help="the folder to make")
    args = parser.parse_args()
    package = args.unpacked / "wordllama"
    [vectors] = load_file(package / "weights" / "l2_supercat_256.safetensors").values()
    args.folder.mkdir(parents=True, exist_ok=True)
    save_file({"embeddings": vectors.astype("float32")}, args.folder / "model.safetensors")
    shutil.copy(
        package / "tokenizers" / "l2_supercat_tokenizer_config.json", args.folder / "tokenizer.json"
    )
    (args.folder / "config.json").write_text(json.dumps({"normalize": True}))


if __name__ == "__main__":
    main()

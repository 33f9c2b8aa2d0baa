"""Does with files what scripts do; with an argument, as a rank that is not the first."""

import glob
import importlib.util
import os
import pathlib
import shutil
import sqlite3
import sys
import tempfile

import torch

if sys.argv[1:]:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
    from training.workloads.script.spread import library_files

    library_files.redirect(tempfile.mkdtemp())
os.makedirs("out/first", exist_ok=True)
print(os.listdir("out/first"), os.path.isdir("out"))
with open("out/first/x", "w") as file:
    file.write("1")
print(os.listdir("out/first"), sorted(os.listdir("out")), sorted(os.listdir()))
pathlib.Path("p/q").mkdir(parents=True)
pathlib.Path("p/q/t.txt").write_text("text")
print(pathlib.Path("p/q/t.txt").read_text(), sorted(pathlib.Path("p").rglob("*")))
with open("old/a.txt", "a") as file:
    file.write("+")
os.remove("old/b.txt")
print(pathlib.Path("old/a.txt").read_text(), os.path.exists("old/b.txt"), sorted(os.listdir("old")))
os.rename("old/a.txt", "old/c.txt")
print(sorted(os.listdir("old")), pathlib.Path("old/c.txt").read_text())
shutil.rmtree("out")
shutil.copy("old/c.txt", "d.txt")
os.replace("d.txt", "e.txt")
print(os.path.exists("out"), sorted(os.listdir(".")), pathlib.Path("e.txt").read_text())
try:
    os.rmdir("old")
except OSError as error:
    print(type(error).__name__)
shutil.rmtree("old")
torch.save({"a": torch.ones(1)}, "m.pt")
print(os.path.exists("old"), os.path.exists("old/sub"), torch.load("m.pt"))
print(sorted(entry.name for entry in os.scandir(".")), sorted(os.walk(".")), sorted(glob.glob("*")))
if importlib.util.find_spec("tokenizers"):
    from tokenizers import Tokenizer, models

    words = Tokenizer(models.WordLevel({"a": 0}))
    words.save("p/q/words.json")
    words.model.save("p/q")
    print(Tokenizer.from_file("p/q/words.json").get_vocab(), sorted(os.listdir("p/q")))
os.makedirs("cwd/sub")
os.chdir("cwd")
with open("sub/x", "w") as file:
    file.write("12345")
os.truncate("sub/x", 2)
os.symlink("sub/x", "near")
os.link("sub/x", "hard")
os.rename(src="hard", dst="moved")
os.chmod("../e.txt", 0o600)
database = sqlite3.connect("log.db")
database.execute("create table t (a)")
database.commit()
torch.jit.script(torch.nn.Linear(1, 1)).save("script.pt")
print(os.path.basename(os.getcwd()), os.readlink("near"), pathlib.Path("near").read_text(), sorted(os.listdir(".")))
print(pathlib.Path("moved").read_text(), os.path.exists("../cwd/sub"), torch.jit.load("script.pt").in_features)
os.chdir("..")
print(sorted(os.listdir("cwd")), pathlib.Path("e.txt").read_text())

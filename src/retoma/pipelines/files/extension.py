"""Files as an extension: the job that removes stored files which nothing owns."""

from retoma.app.extension import Extension

FILES = Extension(name="files", pipelines="retoma.pipelines.files.sweep:PIPELINES")

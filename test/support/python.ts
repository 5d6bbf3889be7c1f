/** A Python with numpy, which the loop needs; the tests of it are skipped where there is none. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The folder of the package. */
export const PYTHON_PACKAGE = fileURLToPath(new URL('../../python', import.meta.url));

// A Python of the user may come first in PATH and have no numpy, while Debian's has it.
const CANDIDATES = ['python3', '/usr/bin/python3'];

const has = (python: string, module: string) => spawnSync(python, ['-c', `import ${module}`]).status === 0;

/** test/run.ts looks once for all of its processes. Empty: there is none. */
export const FOUND_PYTHON = 'TEST_PYTHON';
const { [FOUND_PYTHON]: given } = process.env;
const found = given === undefined ? CANDIDATES.find((python) => has(python, 'numpy')) : given || undefined;
export const PYTHON = found ?? 'python3';
const hasNumpy = found !== undefined;
/** The value for the processes of test/run.ts. */
export const FOUND = found ?? '';

/** For the options of a test. */
export const WITH_PYTHON = { skip: hasNumpy ? false : 'needs python3 with numpy (Debian: python3-numpy)' };
// Asked where it is needed, because a look at an import takes long.
export const WITH_ONNXRUNTIME = {
  get skip() {
    const isThere = hasNumpy && has(PYTHON, 'onnxruntime');
    return isThere ? false : 'needs python3 with numpy and onnxruntime';
  },
};
export const WITH_PILLOW = {
  get skip() {
    const isThere = hasNumpy && has(PYTHON, 'PIL');
    return isThere ? false : 'needs python3 with numpy and Pillow (Debian: python3-pil)';
  },
};

/** The names of the former client over Redis: the tests that are in Python. */
import { spawnSync } from 'node:child_process';
import { python, testModule } from './unittest.ts';

const hasZoo = spawnSync(python, ['-c', 'import numpy, pyarrow, redis']).status === 0;
testModule('test_compat.py', { skip: hasZoo ? false : `needs numpy, pyarrow and redis for ${python}` });

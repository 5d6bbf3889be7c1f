/** The program of the process in which models are tried. In the installed package it is a file of its own, beside what starts it. */
import { serveTasks, TASKS } from '../onnx-import/process.ts';
import { DIFF, GROWTH } from './diff/tasks.ts';
import { GOLDEN, PREPARE_ALL } from './golden/tasks.ts';
import { REPLAY } from './replay/tasks.ts';

serveTasks([...TASKS, GOLDEN, DIFF, GROWTH, REPLAY, PREPARE_ALL]);

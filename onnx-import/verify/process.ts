/** The process in which models are tried. In a package it is a file of its own, beside what starts it. */
import { serveTasks } from '../process/serve-tasks.ts';
import { TASKS } from './tasks.ts';

serveTasks(TASKS);

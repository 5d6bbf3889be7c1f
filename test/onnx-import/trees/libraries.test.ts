import { libraryTests } from './libraries.ts';

libraryTests('first');

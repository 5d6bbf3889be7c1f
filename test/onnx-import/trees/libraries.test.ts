import { libraryTests } from './of-libraries.ts';

libraryTests('first');

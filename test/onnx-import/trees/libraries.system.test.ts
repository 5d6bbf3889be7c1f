/** The rest of the tree models. */
import { libraryTests } from './libraries.ts';

libraryTests('others');

/** The rest of the tree models. */
import { libraryTests } from './of-libraries.ts';

libraryTests('others');

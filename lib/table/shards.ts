/** Parts into which what all environments write is divided: one partition of DynamoDB takes 1,000 writes a second. */
export const SHARDS = 8;

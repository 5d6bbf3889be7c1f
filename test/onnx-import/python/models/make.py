"""
Makes regression.cbm (catboost 1.2.10) and pipeline.pkl (scikit-learn 1.9.1), for export.long.test.ts. Needed by no test.
"""
import os
import pickle

import numpy

folder = os.path.dirname(os.path.abspath(__file__))
x = numpy.random.RandomState(0).normal(size=(60, 3))
try:
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(iterations=3, depth=2, verbose=0, allow_writing_files=False)
    model.fit(x, x[:, 0] * 2 + x[:, 1]).save_model(os.path.join(folder, 'regression.cbm'))
except ImportError:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, (x[:, 0] > 0).astype(int) + (x[:, 1] > 0))
    with open(os.path.join(folder, 'pipeline.pkl'), 'wb') as file:
        pickle.dump(pipeline, file)

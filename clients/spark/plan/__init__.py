"""A plan on Spark: every node and expression as PySpark DataFrame code that means the same.

    df.collect(engine="spark")          one plan
    fabric.connect("spark://host:7077") a session whose frames run there
    fabric run --engine spark FILE      a whole program

Importing this package does not import pyspark.
"""

"""The paper: loss, pooling and label graph as pure torch modules, with the paper's symbols."""
